"""`open(uri)`: what is named is what is opened, and nothing secret is repeated."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_core import datasources
from sentinel_core.datasources import (
    EtcdSource,
    FileSource,
    GitSource,
    MemorySource,
    NacosSource,
    SourceMisconfigured,
    mask_uri,
)
from sentinel_core.datasources.registry import seconds


@pytest.mark.parametrize(
    ("uri", "kind", "shown"),
    [
        ("memory://test", MemorySource, "memory://test"),
        ("file:///etc/sentinel/rules.yaml", FileSource, "file:///etc/sentinel/rules.yaml"),
        ("/etc/sentinel/rules.yaml?poll_ms=5", FileSource, "file:///etc/sentinel/rules.yaml?poll_ms=5"),
        ("file:///etc/a%20b", FileSource, "file:///etc/a b"),
        ("git+file:///srv/rules?ref=main&path=rules", GitSource, "git+file:///srv/rules?ref=main&path=rules"),
        ("git:/srv/rules?ref=v1", GitSource, "git+file:///srv/rules?ref=v1&path=."),
        ("etcd://one:1,[::1]/ns?user=u", EtcdSource, "etcd://one:1,[::1]:2379/ns"),
        (
            "nacos://127.0.0.1:8848?group=SENTINEL_GROUP",
            NacosSource,
            "nacos://127.0.0.1:8848/public?group=SENTINEL_GROUP",
        ),
        ("nacos://one,two:1/shop?user=u", NacosSource, "nacos://one:8848,two:1/shop?group=SENTINEL_GROUP"),
        ("git+ssh://git@host/rules.git", GitSource, "git+ssh://git@host/rules.git?ref=HEAD&path=."),
        ("git+https://token@host/rules.git", GitSource, "git+https://***@host/rules.git?ref=HEAD&path=."),
    ],
)
def test_a_uri_opens_its_store(uri: str, kind: type, shown: str) -> None:
    source = datasources.open(uri)
    assert isinstance(source, kind)
    assert source.uri == shown


def test_a_bare_path_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert datasources.open("rules/flow.yaml").uri == f"file://{tmp_path}/rules/flow.yaml"


@pytest.mark.parametrize(
    "uri", ["file://{}/shop/../live/k.yaml", "{}/nowhere/../live/k.yaml", "{}/live/./../live/k.yaml"]
)
def test_a_file_is_one_store_however_its_path_is_spelled(tmp_path: Path, uri: str) -> None:
    (tmp_path / "live").mkdir()
    assert datasources.open(uri.format(tmp_path)).uri == f"file://{tmp_path}/live/k.yaml"


@pytest.mark.parametrize("form", ["git+file://{}/shop/../rules?ref=main", "git:{}/shop/../rules?ref=main"])
def test_a_repository_is_one_store_however_its_path_is_spelled(tmp_path: Path, form: str) -> None:
    one, other = datasources.open(form.format(tmp_path)), datasources.open(f"git+file://{tmp_path}/rules?ref=main")
    assert [each.source for each in one.items(["flow"])] == [each.source for each in other.items(["flow"])]
    assert one.uri == other.uri


def test_behind_a_link_the_folder_above_is_where_the_kernel_goes(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "deep" / "er")
    assert datasources.open(f"file://{tmp_path}/link/../k.yaml").uri == f"file://{tmp_path}/deep/k.yaml"
    assert datasources.open(f"file://{tmp_path}/deep/../link/k.yaml").uri == f"file://{tmp_path}/link/k.yaml"


def test_options_are_the_same_as_parameters() -> None:
    source = datasources.open("git:/srv/rules", ref="main", interval="500ms", environment="prod")
    (item,) = source.items(["flow"])
    assert item.source == "/prod/git/file:///srv/rules@main/."


def test_a_token_is_no_part_of_a_sources_identity() -> None:
    (old,) = datasources.open("git+https://one@host/r.git").items(["flow"])
    (new,) = datasources.open("git+https://user:two@host/r.git").items(["flow"])
    assert old.source == new.source == "/default/git/https://host/r.git@HEAD/."


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("fiel:///x", "unknown scheme fiel; did you mean file?"),
        ("consul://x", "unknown scheme consul. Supported: "),
        ("file:///x?zz=5", "unknown parameter zz. Known here: "),
        ("consul://x", "entry point sentinel.datasources"),
        ("nacos://", "needs a host"),
        ("nacos://h/a/b", "the path is /namespace; the group is written ?group=NAME"),
        ("nacos://h/a?namespace=b", "name two namespaces"),
        ("nacos://h/a%20b", "is no id of a namespace"),
        ("nacos://h?group=a/b", "alone make a group"),
        ("nacos://h?transport=smoke", "transport: 'smoke' is neither http nor grpc"),
        ("nacos://h?token_file=t&user=u", "leave user or it out"),
        ("nacos://h?password_file=p", "write &user=NAME"),
        ("nacos://h?tls=no&ca=ca.pem", "leave tls or them out"),
        ("nacos://h?template=/{kind}", "a dataId is made of letters, digits and - _ . : alone"),
        ("nacos://h?template={group}-rules", "kinds would share a key"),
        ("etcd://h/a/b/c", "the path is /namespace/group"),
        ("etcd://", "needs a host"),
        ("etcd://host:port", "is not host:port"),
        ("etcd://h?cert=c.pem", "cert and key belong together"),
        ("etcd://h?tls=false&ca=ca.pem", "leave tls or them out"),
        ("etcd://h?password_file=p", "write &user=NAME"),
        ("etcd://h?template=/rules/{namespace}", "kinds would share a key"),
        ("etcd://h?template=/rules/{app}/{kind}", "template may hold {namespace}, {group}, {dataId}, {kind} only"),
        ("file:///x?pol_ms=5", "unknown parameter pol_ms; did you mean poll_ms?"),
        ("file:///x?poll_ms=soon", "poll_ms: 'soon' is not a number of milliseconds"),
        ("file:///x?poll_ms=5&poll_ms=6", "given twice"),
        ("file://", "needs a path"),
        ("git://host/rules", "git+https://host/path"),
        ("git:/srv/rules?ref=--upload-pack=x", "begins with -"),
        ("git:/srv/rules?path=../etc", "leaves the repository"),
        ("git:/srv/rules?clone=maybe", "neither true nor false"),
        ("git:/srv/rules?interval=0s", "not a duration"),
        ("nacos://host?timeout=99999999999999", "not a duration of up to 30 days"),
        (f"nacos://host?interval={'9' * 400}m", "not a duration of up to 30 days"),
    ],
)
def test_what_cannot_be_opened_says_what_to_write(uri: str, words: str) -> None:
    with pytest.raises(SourceMisconfigured) as caught:
        datasources.open(uri)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "uri",
    [
        "nacos://ops:hunter2@host/x",
        "etcd://host/x?token=hunter2",
        "etcd://ops:hunter2@host/x",
        "etcd://ops:hunter2@host:port/x",
        "git+https://hunter2@host/r?reff=main",
        "git+https://u:hunter2@host/r?interval=x",
        "file:///x?api_key=hunter2",
    ],
)
def test_a_secret_never_stands_in_a_message(uri: str) -> None:
    with pytest.raises(SourceMisconfigured) as caught:
        datasources.open(uri)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("nacos://ops:pw@host:8848?group=G&password=x", "nacos://ops:***@host:8848?group=G&password=***"),
        ("https://ghp_abc@host/r", "https://***@host/r"),
        ("ssh://git@host/r", "ssh://git@host/r"),
        ("fatal: cannot reach 'https://u:p@h/r' today", "fatal: cannot reach 'https://u:***@h/r' today"),
        ("etcd://u:slash/in/it@host/x", "etcd://u:***@host/x"),
        ("etcd://host:2379/key@7", "etcd://host:2379/key@7"),
        ("/git/file:///srv/rules.git@main/rules", "/git/file:///srv/rules.git@main/rules"),
        ("etcd://h?user=u&password_file=/run/secrets/pw", "etcd://h?user=u&password_file=/run/secrets/pw"),
        ("/plain/path", "/plain/path"),
    ],
)
def test_masking(text: str, masked: str) -> None:
    assert mask_uri(text) == masked


@given(st.text(alphabet=st.characters(exclude_characters="@/?#'\"", exclude_categories=("Z", "C")), min_size=8))
def test_no_password_survives_masking(password: str) -> None:
    assert password not in mask_uri(f"etcd://user:{password}@store/x").removeprefix("etcd://user")


@pytest.mark.parametrize(("text", "value"), [("5", 5.0), ("5s", 5.0), ("500ms", 0.5), ("2m", 120.0), ("0.5s", 0.5)])
def test_durations(text: str, value: float) -> None:
    assert seconds(text) == value
