// Solves a proof of work of ALTCHA 2 (docs: "Human checks") with the browser's own cryptography, which is not on the page's thread.

/** @typedef {import("../types/api.js").components["schemas"]["AltchaChallenge"]} AltchaChallenge */

const bytes = (/** @type {string} */ hex) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
const hex = (/** @type {ArrayBuffer} */ buffer) => Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, "0")).join("");

/**
 * Finds the counter whose key begins with the challenge's prefix. Resolves to the payload for the ticket request. Needs a
 * secure origin.
 * @param {AltchaChallenge} challenge
 * @returns {Promise<string>}
 */
export async function solveWork(challenge) {
  const { nonce, salt, cost: iterations, keyLength, keyPrefix } = challenge.parameters;
  const derivation = { name: "PBKDF2", hash: "SHA-256", salt: bytes(salt), iterations };
  const password = new Uint8Array([...bytes(nonce), 0, 0, 0, 0]);
  const startedAt = performance.now();
  for (let counter = 0; ; counter += 1) {
    new DataView(password.buffer).setUint32(password.length - 4, counter);
    const key = await crypto.subtle.importKey("raw", password, "PBKDF2", false, ["deriveBits"]);
    const derivedKey = hex(await crypto.subtle.deriveBits(derivation, key, keyLength * 8));
    if (!derivedKey.startsWith(keyPrefix)) continue;
    const solution = { counter, derivedKey, time: Math.round(performance.now() - startedAt) };
    return btoa(JSON.stringify({ challenge, solution }));
  }
}
