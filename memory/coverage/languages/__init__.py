"""What is known of one language, a file each."""
