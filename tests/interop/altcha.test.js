// Human checks (B5), solved by ALTCHA's own library as other clients than browsers do.

import assert from "node:assert/strict";
import { webcrypto } from "node:crypto";
import { test } from "node:test";

import { solveChallenge } from "altcha-lib";
import { deriveKey } from "altcha-lib/algorithms/pbkdf2";
import * as v1 from "altcha-lib/v1";

import { ask, call, eventually, publish, signIn } from "./support/app.js";

// What version 1 of the library takes for granted is not there yet in Node 18, which Debian 12 has.
globalThis.crypto ??= webcrypto;

const encode = (payload) => Buffer.from(JSON.stringify(payload)).toString("base64");

/** A sale that asks for a proof of work, and somebody who wants a ticket. */
async function scene() {
  const { id } = await publish({ human_check: "pow" });
  const { token } = await signIn();
  const path = (what) => `/api/activities/${id}/${what}`;
  await eventually("the sale being known where tickets are issued", async () => {
    const { status } = await ask("POST", path("ticket"), { token });
    return { done: status === 403, value: status };
  });
  return {
    challenge: (body = {}) => call("POST", path("challenge"), { token, body }),
    ticket: (altcha) => ask("POST", path("ticket"), { token, body: { altcha } }),
  };
}

test("a challenge of version 2 is solved by the library, and counts once", async () => {
  const { challenge, ticket } = await scene();
  const asked = await challenge();
  const solution = await solveChallenge({ challenge: asked, deriveKey });
  const payload = encode({ challenge: asked, solution });
  assert.equal((await ticket(payload)).status, 201);
  const again = await ticket(payload);
  assert.deepEqual([again.status, again.document.code], [403, "human_check_failed"]);
});

test("a challenge of version 1 is solved by the library, and counts once", async () => {
  const { challenge, ticket } = await scene();
  const asked = await challenge({ altcha: 1 });
  const { expires, for: bound } = v1.extractParams({ ...asked, number: 0 });
  assert.ok(Number(expires) * 1000 > Date.now() && bound.length === 22 && asked.salt.endsWith("&"));
  const { number } = await v1.solveChallenge(asked.challenge, asked.salt, asked.algorithm, asked.maxnumber).promise;
  const payload = encode({ ...asked, number, took: 1 });
  assert.equal((await ticket(payload)).status, 201);
  assert.equal((await ticket(payload)).status, 403);
});

test("what costs no work is no proof, whichever version it speaks", async () => {
  const { challenge, ticket } = await scene();
  const [two, one] = [await challenge(), await challenge({ altcha: 1 })];
  const { derivedKey } = await deriveKey(two.parameters, Buffer.from(two.parameters.salt, "hex"),
    Buffer.concat([Buffer.from(two.parameters.nonce, "hex"), Buffer.alloc(4)]));
  const fakes = [
    { challenge: null, solution: null, test: true },
    // The key of counter 0 is derived rightly, and does not begin as it was asked to.
    { challenge: two, solution: { counter: 0, derivedKey: Buffer.from(derivedKey).toString("hex"), time: 1 } },
    { ...one, number: 0, took: 1 },
  ];
  for (const fake of fakes) {
    const { status, document } = await ticket(encode(fake));
    assert.deepEqual([status, document.code], [403, "human_check_failed"], JSON.stringify(fake));
  }
});
