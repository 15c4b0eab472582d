"""Ed25519 keys as PEM. The library is the extra `sign` and is imported when a key is used."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from sentinel_core.audit.errors import KeyUnusable

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_HOW = "make one with: openssl genpkey -algorithm ed25519 -out audit.key"


class VerifyKey:
    """Tells whether a signature is that of the key. Holds the public half alone."""

    def __init__(self, key: Ed25519PublicKey) -> None:
        self._key = key
        self.id = sha256(key.public_bytes_raw()).hexdigest()[:16]
        """The first 16 digits of the SHA-256 of the raw public key."""

    @classmethod
    def from_pem(cls, text: str) -> VerifyKey:
        """A public key, or the public half of a private one. Raises KeyUnusable."""
        if "PRIVATE KEY" in text:
            return SigningKey.from_pem(text).public
        _library()
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        try:
            key = load_pem_public_key(text.encode())
        except ValueError as error:
            raise KeyUnusable(
                "the key to verify with is no PEM; openssl pkey -in audit.key -pubout writes it"
            ) from error
        if not isinstance(key, Ed25519PublicKey):
            raise KeyUnusable(f"the key to verify with is not of Ed25519; {_HOW}")
        return cls(key)

    def is_signed(self, content: bytes, signature: bytes) -> bool:
        """Whether the key's owner signed exactly this."""
        from cryptography.exceptions import InvalidSignature

        try:
            self._key.verify(signature, content)
        except InvalidSignature:
            return False
        return True


class SigningKey:
    """Signs. The private half never leaves the object."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = VerifyKey(key.public_key())

    @classmethod
    def from_pem(cls, text: str) -> SigningKey:
        """An unencrypted PKCS 8 private key. Raises KeyUnusable; the message holds nothing of the key."""
        _library()
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            key = load_pem_private_key(text.encode(), password=None)
        except (ValueError, TypeError):
            raise KeyUnusable(f"audit.signingKey is no unencrypted private key in PEM; {_HOW}") from None
        if not isinstance(key, Ed25519PrivateKey):
            raise KeyUnusable(f"audit.signingKey is not of Ed25519; {_HOW}")
        return cls(key)

    def sign(self, content: bytes) -> bytes:
        """64 bytes."""
        return self._key.sign(content)


def _library() -> None:
    try:
        import cryptography  # noqa: F401  only whether it is there
    except ImportError:
        raise KeyUnusable(
            "signatures need a library that is not installed: pip install 'sentinel-control-plane[sign]'"
        ) from None
