// The official JavaScript signer and verifier of cards, one call for each run:
//   node signatures.mjs verify GATEWAY_URL JWKS          prints what it found, or fails
//   node signatures.mjs sign JWK < card.json             prints the signed card
// `JWK` is a private key. Both keys are JSON.
import { readFileSync } from 'node:fs';

import { AgentCard, generateAgentCardSignature, verifyAgentCardSignature } from '@a2a-js/sdk';
import { DefaultAgentCardResolver } from '@a2a-js/sdk/client';
import { importJWK } from 'jose';

const [verb, ...options] = process.argv.slice(2);

// The card as fetched in each form, and as the resolver of the SDK hands it to its clients.
async function verify(gateway, jwks) {
  const { keys } = JSON.parse(jwks);
  const check = verifyAgentCardSignature((kid) => importJWK(keys.find((key) => key.kid === kid)));
  const fetched = async (headers) =>
    (await fetch(`${gateway}/.well-known/agent-card.json`, { headers })).json();
  const cards = {
    'as 1.0': await fetched({ 'A2A-Version': '1.0' }),
    'as both versions': await fetched({}),
    resolved: await new DefaultAgentCardResolver().resolve(gateway),
  };
  const verified = {};
  for (const [name, card] of Object.entries(cards)) {
    await check(card);
    verified[name] = AgentCard.fromJSON(card).securityRequirements.length;
  }
  return verified;
}

// An agent on the SDK signs the card that it describes itself by, which is no JSON.
async function sign(jwk) {
  const key = JSON.parse(jwk);
  const header = { alg: key.alg, kid: key.kid, typ: 'JOSE' };
  const card = AgentCard.fromJSON(JSON.parse(readFileSync(0, 'utf8')));
  return AgentCard.toJSON(await generateAgentCardSignature(await importJWK(key), header)(card));
}

console.log(JSON.stringify(await { verify, sign }[verb](...options)));
