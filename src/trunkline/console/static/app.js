const main = document.getElementById("app");
const answer = await fetch("/api/v1/auth/me", { headers: { "Trunkline-Page": "1" } });
const line = document.createElement("p");
line.textContent = answer.ok
  ? `Signed in as ${(await answer.json()).principal}.`
  : "Not signed in. Run `trunkline open` on the machine of the gateway.";
main.append(line);
