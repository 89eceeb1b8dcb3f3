# SPDX-License-Identifier: Apache-2.0
"""States for `ip xfrm` from what charon logs of the keys that it made (`chd = 4`), the initiator's way out."""

import re
import sys

log = open(sys.argv[1], errors="replace").read()
NAMES = {
    "aes128gcm16": ("aead 'rfc4106(gcm(aes))'", None, 128),
    "aes256gcm16": ("aead 'rfc4106(gcm(aes))'", None, 128),
    "chacha20poly1305": ("aead 'rfc7539esp(chacha20,poly1305)'", None, 128),
    "aes128-sha256": ("enc 'cbc(aes)'", "auth-trunc 'hmac(sha256)'", 128),
    "aes256-sha384": ("enc 'cbc(aes)'", "auth-trunc 'hmac(sha384)'", 192),
    "aes256-sha512": ("enc 'cbc(aes)'", "auth-trunc 'hmac(sha512)'", 256),
}
cipher, mac, bits = NAMES[sys.argv[2]]


def dump(title):
    """The bytes of a hex dump after a title: lines of `  16: 01 02 …  text`."""
    found = re.search(title + r" => (\d+) bytes[^\n]*\n((?:[^\n]*\[CHD\] +\d+: [^\n]*\n)+)", log)
    if not found:
        sys.exit(f"no {title} in the log")
    pairs = []
    for line in found.group(2).splitlines():
        text = line.split(": ", 1)[1]
        pairs += re.findall(r"\b[0-9A-F]{2}\b", text[:48])
    return "".join(pairs[: int(found.group(1))]).lower()


spi = re.search(r"SPIs [0-9a-f]+_i ([0-9a-f]+)_o", log).group(1)
key = f"{cipher} 0x{dump('encryption initiator key')}"
key += f" {mac} 0x{dump('integrity initiator key')} {bits}" if mac else f" {bits}"
print(
    f"xfrm state add src 198.18.0.1 dst 198.18.0.2 proto esp spi 0x{spi} reqid 1 mode tunnel "
    f"replay-window 32 replay-oseq 100 encap espinudp 4500 4500 0.0.0.0 {key}"
)
