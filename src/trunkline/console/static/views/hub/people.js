// The people of the hub, who are managed on the machine of the gateway alone. `#/hub/people`
import { html } from "../../lib/html.js";
import { link } from "../../lib/router.js";
import { CopyButton } from "../../parts/basics.js";

const COMMANDS = [
  ["Who may sign in", "trunkline user ls"],
  ["Let somebody sign in with a password", "trunkline user add LOGIN"],
  ["The same, as an operator", "trunkline user add LOGIN --admin"],
  ["Let somebody sign in at a provider", "trunkline user add LOGIN --provider NAME --subject ID"],
  ["Set a new password, and end all sessions", "trunkline user passwd LOGIN"],
  ["Keep somebody out, and end all sessions", "trunkline user disable LOGIN"],
];

export default function People() {
  return html`<div><div class="view-head"><h1>People</h1></div>
    <section class="card"><p>People are added and removed on the machine of the gateway, so that a stolen session of a browser adds nobody.
      Each manages the agents whose owner is their login.</p>
      <dl class="commands">${COMMANDS.map(
        ([what, command]) => html`<div key=${command}><dt>${what}</dt><dd class="command"><code>${command}</code> <${CopyButton} text=${command} title=${command} /></dd></div>`,
      )}</dl>
      <p>Sessions of people are among the <a href=${link("hub", "tokens")}>tokens</a>, where they can be revoked. What people have changed is in the <a href=${link("hub", "audit", { kind: "change" })}>audit</a>.</p>
    </section></div>`;
}
