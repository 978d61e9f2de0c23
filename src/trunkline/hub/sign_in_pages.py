"""The pages of the sign-in. They have no script, and load nothing. Their colours are those of the
page of the gateway (console/static/css/page.css)."""

import base64
import hashlib
from collections.abc import Mapping
from html import escape
from typing import Final

from starlette.responses import HTMLResponse, Response

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #18202e; --page: #f6f7f9; --card: #fff; --line: #d9dee6;
  --accent: #2752c4; --on-accent: #fff; --fault: #b3261e; --quiet: #576276; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf1; --page: #0f131a; --card: #161b24;
  --line: #2d3644; --accent: #8fb0ff; --on-accent: #0d1730; --fault: #ff9d95; --quiet: #9aa6b8; } }
* { box-sizing: border-box; }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1.5rem;
  background: var(--page); color: var(--ink); font: 15px/1.5 system-ui,
  -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { width: 100%; max-width: 25rem; padding: 2rem; background: var(--card);
  border: 1px solid var(--line); border-radius: 10px; }
.brand { margin: 0 0 .2rem; color: var(--quiet); font-weight: 700; }
h1 { margin: 0 0 1.25rem; font-size: 1.35rem; line-height: 1.25; }
p { margin: 0 0 1rem; }
label { display: block; margin-bottom: 1rem; font-weight: 600; }
input { display: block; width: 100%; margin-top: .3rem; padding: .6rem .7rem; font: inherit;
  color: inherit; background: var(--page); border: 1px solid var(--line); border-radius: 8px; }
button, .choice { display: block; width: 100%; padding: .65rem 1rem; font: inherit;
  font-weight: 600; text-align: center; text-decoration: none; cursor: pointer;
  color: var(--on-accent); background: var(--accent); border: 1px solid var(--accent);
  border-radius: 8px; }
.choice + .choice { margin-top: .75rem; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
.fault { color: var(--fault); font-weight: 600; }
.note { padding: .75rem; border: 1px solid var(--line); border-radius: 8px; }
code { overflow-wrap: anywhere; }
"""
_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()


def page(title: str, *body: str, status: int = 200, form_to: str = "") -> Response:
    """`form_to`: an origin beside the gateway's own to which the answer to a form may lead."""
    text = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f'<body><main><p class="brand">Trunkline</p><h1>{escape(title)}</h1>'
        f"{''.join(body)}</main></body></html>\n"
    )
    return HTMLResponse(text, status, page_headers(form_to=form_to))


def page_headers(*, form_to: str = "") -> dict[str, str]:
    # Browsers apply form-action to the redirects that follow a form as well.
    form_action = f"'self' {form_to}".strip()
    return {
        "Content-Security-Policy": (
            f"default-src 'none'; style-src 'sha256-{_HASH}'; form-action {form_action}; "
            "frame-ancestors 'none'; base-uri 'none'"
        ),
        "X-Frame-Options": "DENY",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
        # With "no-referrer" browsers would state the origin of a form as null.
        "Referrer-Policy": "same-origin",
    }


def password_page(
    *,
    form_token: str,
    program: str = "",
    fault: str = "",
    login: str = "",
    status: int = 200,
    form_to: str = "",
) -> Response:
    """The form for login and password. `program`: the address of a program that asks for a
    session."""
    return page(
        "Sign in",
        _about_program(program),
        f'<p class="fault" role="alert">{escape(fault)}</p>' if fault else "",
        '<form method="post" action="sign-in">'
        f'<input type="hidden" name="csrf" value="{escape(form_token)}">'
        '<label>Login<input name="login" autocomplete="username" autocapitalize="none" '
        f'spellcheck="false" required maxlength="64" value="{escape(login)}"'
        f"{'' if login else ' autofocus'}></label>"
        '<label>Password<input name="password" type="password" autocomplete="current-password" '
        f'required maxlength="256"{" autofocus" if login else ""}></label>'
        "<button>Sign in</button></form>",
        status=status,
        form_to=form_to,
    )


def chooser_page(choices: Mapping[str, str], *, program: str = "") -> Response:
    """Links to start the sign-in at one of several providers, by their titles."""
    links = "".join(
        f'<a class="choice" href="{escape(address)}">{escape(title)}</a>'
        for title, address in choices.items()
    )
    return page("Sign in with", _about_program(program), links)


def signed_in_page(name: str, login: str) -> Response:
    shown = (
        f"{escape(name)} (<code>{escape(login)}</code>)"
        if name
        else f"<code>{escape(login)}</code>"
    )
    return page(
        "You are signed in",
        f"<p>As {shown}.</p>",
        '<form method="post" action="sign-out"><button>Sign out</button></form>',
    )


def signed_out_page() -> Response:
    return page("You are not signed in", '<a class="choice" href="oauth/start">Sign in</a>')


def fault_page(message: str, *, status: int, start: str) -> Response:
    """`start`: the address of a new sign-in."""
    return page(
        "The sign-in failed",
        f'<p class="fault" role="alert">{escape(message)}.</p>',
        f'<a class="choice" href="{escape(start)}">Start again</a>',
        status=status,
    )


def _about_program(program: str) -> str:
    if not program:
        return ""
    return (
        f'<p class="note">A program on this computer (<code>{escape(program)}</code>) asks to act '
        "for you. Continue only if you have just started it.</p>"
    )
