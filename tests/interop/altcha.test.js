// Proofs of work (B5), solved by ALTCHA's library for clients that are not browsers.

import assert from "node:assert/strict";
import { webcrypto } from "node:crypto";
import { test } from "node:test";

import { solveChallenge } from "altcha-lib";
import { deriveKey } from "altcha-lib/algorithms/pbkdf2";

import { call, eventually, publish, send, signIn } from "./support/app.js";

// Version 1 of the library expects a global `crypto`, which Node 18 (in Debian 12) lacks.
globalThis.crypto ??= webcrypto;

const encode = (payload) => Buffer.from(JSON.stringify(payload)).toString("base64");

/** Publishes an activity that requires a proof of work. Resolves to functions that request a challenge and a ticket. */
async function publishWithProofOfWork() {
  const { id } = await publish({ human_check: "pow" });
  const { token } = await signIn();
  const path = (what) => `/api/activities/${id}/${what}`;
  await eventually("the activity being known to the ticket route", async () => {
    const { status } = await send("POST", path("ticket"), { token });
    return { done: status === 403, value: status };
  });
  return {
    requestChallenge: (body = {}) => call("POST", path("challenge"), { token, body }),
    requestTicket: (altcha) => send("POST", path("ticket"), { token, body: { altcha } }),
  };
}

test("a version 2 challenge that the library solved is accepted once", async () => {
  const { requestChallenge, requestTicket } = await publishWithProofOfWork();
  const challenge = await requestChallenge();
  const solution = await solveChallenge({ challenge, deriveKey });
  const payload = encode({ challenge, solution });
  assert.equal((await requestTicket(payload)).status, 201);
  const second = await requestTicket(payload);
  assert.deepEqual([second.status, second.document.code], [403, "human_check_failed"]);
});

test("a payload without a valid proof of work is refused", async () => {
  const { requestChallenge, requestTicket } = await publishWithProofOfWork();
  const version2 = await requestChallenge();
  const version1 = { algorithm: "SHA-256", challenge: "00", salt: "x?&", signature: "00" };
  const { derivedKey } = await deriveKey(version2.parameters, Buffer.from(version2.parameters.salt, "hex"),
    Buffer.concat([Buffer.from(version2.parameters.nonce, "hex"), Buffer.alloc(4)]));
  const invalidPayloads = [
    { challenge: null, solution: null, test: true },
    // The key of counter 0 is derived correctly, but lacks the required prefix.
    { challenge: version2, solution: { counter: 0, derivedKey: Buffer.from(derivedKey).toString("hex"), time: 1 } },
    { ...version1, number: 0, took: 1 },
  ];
  for (const invalid of invalidPayloads) {
    const { status, document } = await requestTicket(encode(invalid));
    assert.deepEqual([status, document.code], [403, "human_check_failed"], JSON.stringify(invalid));
  }
});
