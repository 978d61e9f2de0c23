// How to get in: a one-use code on this machine, the sign-in of the hub, or an API key.
import { html, useState } from "../lib/html.js";
import { api, gateway } from "../lib/api.js";
import { useValue } from "../lib/state.js";
import { CopyButton, Field, Problem } from "../parts/basics.js";

export function SignInSteps({ onDone }) {
  const about = useValue(gateway);
  const ways = about?.signIn ?? "code";
  const wasUsed = location.hash.includes("code-used");
  return html`<div class="sign-in">
    ${wasUsed ? html`<p class="problem" role="alert">This address was used before, or is too old. Each one opens the page once.</p>` : null}
    ${ways === "hub"
      ? html`<p><a class="button primary" href="/api/v1/auth/oauth/start?next=/">Sign in</a></p>`
      : null}
    ${ways === "key" ? html`<${KeyForm} onDone=${onDone} />` : null}
    <h2>${ways === "code" ? "Open the page from this machine" : "Or from the gateway's own machine"}</h2>
    <p>Run this command as the user that runs the gateway. It opens the page with an address that works once.</p>
    <p class="command"><code>trunkline open</code> <${CopyButton} text="trunkline open" /></p>
    ${ways === "code" ? html`<p class="quiet">The line <code>Page</code> that <code>trunkline serve</code> prints at its start works too, once.</p>` : null}
    <p class="quiet">Programs need no page: see <a href="/api/v1/reference">the HTTP reference</a>.</p>
  </div>`;
}

function KeyForm({ onDone }) {
  const [key, setKey] = useState("");
  const [error, setError] = useState(null);
  const submit = async (event) => {
    event.preventDefault();
    setError(null);
    try {
      await api("/auth/key", { method: "POST", body: { key } });
      setKey("");
      onDone();
    } catch (refused) {
      setError(refused);
    }
  };
  return html`<form onSubmit=${submit}>
    <${Field} label="API key" hint="The page keeps a session, not the key.">
      <input type="password" autocomplete="off" required value=${key} onInput=${(event) => setKey(event.target.value)} />
    <//>
    <${Problem} error=${error} />
    <button class="primary">Sign in</button>
  </form>`;
}
