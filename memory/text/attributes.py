"""Nouns of attributes that have one value, such as "password", by language.

The value of such an attribute is compared as it is written. A compound counts too if it ends in one
of these nouns after a hyphen, and in German also without one: "WLAN-Passwort", "Handynummer".
"""

from __future__ import annotations

from collections.abc import Mapping

ATTRIBUTES: Mapping[str, frozenset[str]] = {
    language: frozenset(nouns.split())
    for language, nouns in {
        "English": "password passwords passphrase passcode pin pins pwd key keyword code "
        "codes login logins user username usernames handle handles nick nickname alias token "
        "tokens secret id ids identifier registration network networks wifi wi-fi "
        "wlan ssid hotspot e-mail email e-mails emails mail phone telephone number "
        "numbers address addresses url link website domain hostname host server path file filename "
        "folder directory branch commit hash tag tags version versions serial "
        "account iban bic combination combo variable command regex pattern "
        "channel gamertag hashtag license licence ref sku",
        "German": "passwort passwörter kennwort passphrase passcode pin schlüssel lizenzschlüssel "
        "code login benutzer benutzername nutzername username spitzname alias token id kennung "
        "kennzeichen autokennzeichen nummernschild netz netzwerk wlan wifi ssid hotspot mail "
        "e-mail email telefon nummer nummern telefonnummer handynummer adresse url link "
        "website domain server pfad datei dateiname ordner version seriennummer konto iban "
        "bic kombination losung losungswort variable befehl kanal hashtag",
        "French": "passe code clé clef identifiant pseudo pseudonyme alias jeton plaque réseau "
        "wifi courriel mail e-mail téléphone numéro adresse url lien site domaine serveur "
        "chemin fichier branche version compte iban variable commande",
        "Spanish": "contraseña clave código usuario alias apodo token matrícula wifi "
        "correo email teléfono móvil número dirección url enlace sitio dominio servidor ruta "
        "archivo carpeta rama versión cuenta iban variable comando",
        "Japanese": "パスワード パスコード パスフレーズ 暗証番号 暗証 合言葉 鍵 キー コード "
        "ログイン ユーザー ハンドル アカウント ニックネーム トークン 番号 ナンバー ネットワーク "
        "ワイファイ メール 電話 携帯 アドレス 住所 バージョン ファイル フォルダ リンク サイト "
        "サーバー チャンネル",
    }.items()
}
