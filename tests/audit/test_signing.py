"""Keys are asked for by their form, and their library only where one is used."""

from __future__ import annotations

import sys

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from sentinel_core.audit.errors import KeyUnusable
from sentinel_core.audit.signing import SigningKey, VerifyKey


@pytest.fixture
def pem() -> str:
    key = Ed25519PrivateKey.generate()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def test_a_signature_is_that_of_its_key_and_of_its_content(pem: str) -> None:
    key = SigningKey.from_pem(pem)
    signature = key.sign(b"content")
    assert key.public.is_signed(b"content", signature)
    assert not key.public.is_signed(b"other", signature)
    assert not key.public.is_signed(b"content", signature[:-1])


def test_both_halves_verify_and_have_one_id(pem: str) -> None:
    key = SigningKey.from_pem(pem)
    public = key.public._key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    assert VerifyKey.from_pem(public).id == VerifyKey.from_pem(pem).id == key.public.id
    assert VerifyKey.from_pem(public).is_signed(b"x", key.sign(b"x"))


def test_a_private_key_is_in_no_repr(pem: str) -> None:
    assert pem.splitlines()[1] not in repr(SigningKey.from_pem(pem))


def test_without_the_library_it_says_what_to_install(pem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    for read in (SigningKey.from_pem, VerifyKey.from_pem):
        with pytest.raises(KeyUnusable, match=r"pip install 'sentinel-control-plane\[sign\]'"):
            read(pem)
