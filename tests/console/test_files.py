"""The files of the page over HTTP: names, tags, compression, headers."""

import gzip
import os
from pathlib import Path

import pytest
from tests.bindings.asgi import Asgi, Http
from tests.console.world import ECHO, settings, world

from trunkline.app.gateway import build
from trunkline.console.page.files import MEDIA_TYPES, StaticFiles
from trunkline.console.page.headers import POLICY


async def test_the_shell_is_at_the_root_and_has_strict_headers() -> None:
    async with world() as it:
        answer = await it.browser().open("/")
        assert answer.status == 200
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.headers["cache-control"] == "no-cache"
        assert answer.headers["content-security-policy"] == POLICY
        assert "unsafe" not in POLICY
        for name, value in (
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
            ("x-frame-options", "DENY"),
        ):
            assert answer.headers[name] == value
        assert "camera=()" in answer.headers["permissions-policy"]
        assert (await it.browser().open("/console/")).body == answer.body
        assert (await it.browser().open("/console")).body == answer.body


async def test_every_file_is_served_with_its_media_type_and_tag() -> None:
    async with world() as it:
        names = StaticFiles().names
        assert "index.html" in names
        for name in names:
            answer = await it.browser().open(f"/console/{name}")
            assert answer.status == 200
            assert answer.headers["content-type"] == MEDIA_TYPES[Path(name).suffix]
            tag = answer.headers["etag"]
            again = await it.browser().open(f"/console/{name}", **{"if-none-match": tag})
            assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
            assert again.headers["content-security-policy"] == POLICY
            weak = await it.browser().open(f"/console/{name}", **{"if-none-match": f'"x", W/{tag}'})
            assert weak.status == 304


async def test_files_are_compressed_where_the_client_takes_it(tmp_path: Path) -> None:
    text = b"const a = 1;\n" * 1000
    (tmp_path / "views").mkdir()
    (tmp_path / "views" / "a.js").write_bytes(text)
    (tmp_path / "a.png").write_bytes(text)
    files = StaticFiles(tmp_path)
    assert files.names == ["a.png", "views/a.js"]
    script, image = files.find("views/a.js"), files.find("a.png")
    assert script is not None
    assert image is not None
    compressed = files.compressed(script)
    assert compressed is not None
    assert gzip.decompress(compressed) == text
    assert len(compressed) < 200
    assert files.compressed(script) is compressed
    assert files.compressed(image) is None
    async with world() as it:
        plain = await it.browser().open("/")
        for accepted in ("gzip", "br, gzip;q=0.5", "*"):
            answer = await it.browser().open("/", **{"accept-encoding": accepted})
            assert answer.headers["content-encoding"] == "gzip"
            assert answer.headers["vary"] == "Accept-Encoding"
            assert gzip.decompress(answer.body) == plain.body
            assert answer.headers["etag"] != plain.headers["etag"]
        for refused in ("br", "gzip;q=0", "identity"):
            answer = await it.browser().open("/", **{"accept-encoding": refused})
            assert "content-encoding" not in answer.headers
            assert answer.body == plain.body


def test_a_file_that_changed_on_disk_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "app.js"
    file.write_text("1")
    files = StaticFiles(tmp_path)
    first = files.find("app.js")
    assert first is files.find("app.js")
    file.write_text("2")
    os.utime(file, ns=(1, 1))
    second = files.find("app.js")
    assert second is not None
    assert second.body == b"2"
    file.unlink()
    assert files.find("app.js") is second
    (tmp_path / "later.js").write_text("3")
    assert files.find("later.js") is None


@pytest.mark.parametrize(
    "path",
    [
        "/console/../pages.py",
        "/console/%2e%2e/pages.py",
        "/console/..%2fpages.py",
        "/console/views/../../headers.py",
        "/console//etc/passwd",
        "/console/%2fetc%2fpasswd",
        "/console/..\\pages.py",
        "/console/index.html%00.js",
        "/console/index.html/",
        "/console/INDEX.HTML",
        "/console/__init__.py",
        "/console/.",
        "/console/nothing.js",
        "/console/" + "a/" * 5000,
    ],
)
async def test_no_other_file_is_reached(path: str) -> None:
    async with world() as it:
        answer = await it.browser().open(path)
        assert answer.status == 404
        assert answer.headers["content-security-policy"] == POLICY
        assert b"import" not in answer.body


def test_links_to_files_elsewhere_are_not_served(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    (outside / "secret.txt").write_text("secret")
    (inside / "link.txt").symlink_to(outside / "secret.txt")
    (inside / "note.py").write_text("not of the page")
    assert StaticFiles(inside).names == []


async def test_the_page_takes_get_and_head_alone() -> None:
    async with world() as it:
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
            answer = await it.browser().open("/console/app.js", method=method)
            assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
            # Clients of A2A that were given the base URL learn where the cards are.
            root = await it.browser().open("/", method=method)
            assert root.status == 404
            assert "agent-card.json" in root.json()["error"]["message"]
        program = await it.browser().open("/", accept="application/a2a+json")
        assert program.status == 404
        assert (await it.browser().open("/", method="HEAD")).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "localhost:x", "192.168.1.5:8642", "a b"]
)
async def test_a_foreign_host_gets_nothing(host: str) -> None:
    async with world() as it:
        for path in ("/", "/console/app.js", "/?code=x"):
            answer = await it.browser().open(path, host=host or "?")
            assert (answer.status, answer.headers.get("location")) == (421, None)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "[::1]:8642", "127.0.0.9", "a.test"])
async def test_loopback_and_configured_hosts_get_the_page(host: str) -> None:
    async with world(console={"hosts": ["A.test"]}) as it:
        assert (await it.browser(host).open("/")).status == 200


async def test_a_page_that_is_off_is_nowhere() -> None:
    async with world(console={"enabled": False}) as it:
        assert it.gateway.console is None
        for path in ("/", "/console/app.js"):
            answer = await it.browser().open(path)
            assert answer.status == 404
            assert "agent-card.json" in answer.json()["error"]["message"]
        assert (await it.browser().fetch("/gateway")).status == 404
        assert (await it.browser().fetch("/agents")).status == 200


@pytest.mark.parametrize(
    "paths", [{"jsonrpc_path": "/"}, {"agent_card_path": "/"}, {"rest_path": "/"}]
)
async def test_an_agent_at_the_root_keeps_its_address(paths: dict[str, str]) -> None:
    agents = {"demo/echo": ECHO["demo/echo"] | paths}
    tables = {"agents": agents, "console": {"enabled": False}}
    off = build(settings(**tables), base_url="http://h")
    on = build(settings(agents=agents), base_url="http://h")
    for method in ("GET", "POST"):
        request = Http(method=method, path="/", headers={"content-type": "application/json"})
        before = await Asgi(off.application).send(request)
        after = await Asgi(on.application).send(request)
        if "rest_path" in paths:
            # HTTP+JSON has no operation at its own root.
            assert (before.status, after.status) == (404, 200 if method == "GET" else 404)
        else:
            assert (after.status, after.body) == (before.status, before.body)
    shell = await Asgi(on.application).send(Http(method="GET", path="/console/"))
    assert shell.status == 200
