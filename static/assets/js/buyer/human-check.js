// Solves the human check that a sale asks for: work for the processor, or a picture for the eyes.

import * as api from "../shared/api.js";
import { t } from "../shared/i18n.js";
import { puzzle } from "./puzzle.js";

/**
 * Gets a challenge and solves it; resolves to the members that the request for a ticket carries.
 * `place` is where a puzzle is shown, `onCheck(text)` says what is going on.
 */
export async function prove(activity, token, { place, onCheck }) {
  onCheck(t("check.working"));
  const { data } = await api.challenge(activity, token);
  const proof = data.altcha ? { altcha: await work(data.altcha) } : { captcha: await puzzle(data.captcha, place, onCheck) };
  onCheck("");
  return proof;
}

/** ALTCHA, version 1: the number whose hash with the salt is the challenge. */
function work(challenge) {
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL("./pow-worker.js", import.meta.url), { type: "module" });
    const startedAt = performance.now();
    worker.addEventListener("message", ({ data: number }) => {
      worker.terminate();
      if (number === null) return reject(new api.Problem({ status: 403, code: "human_check_failed" }));
      const { algorithm, challenge: goal, salt, signature } = challenge;
      const took = Math.round(performance.now() - startedAt);
      resolve(btoa(JSON.stringify({ algorithm, challenge: goal, number, salt, signature, took })));
    });
    worker.addEventListener("error", (event) => {
      worker.terminate();
      reject(new Error(event.message || "the worker did not start"));
    });
    worker.postMessage(challenge);
  });
}
