// The buyer's token, from the shop's session endpoint (docs/sign-in.md).

import { codeOf } from "../errors.js";
import { createCall } from "../http.js";
import { backoff, poll } from "../timing.js";
import { claimsOf } from "../token.js";

const MINUTE = 60_000;

/** How many doublings of half a minute an endpoint that does not answer is left alone. */
const MAX_DOUBLINGS = 4;

/**
 * Asks the endpoint now, when the page is shown again, and when 60 to 80 % of a token's life are over.
 * @param {string} url
 * @param {() => void} onChange Called after each answer, and when there was none.
 */
export function watchSession(url, onChange) {
  const call = createCall({ baseUrl: "", fetch: (...request) => globalThis.fetch(...request), now: () => performance.now() });
  /** @type {string | null} */
  let token = null;
  let isKnown = false;
  let failures = 0;
  const { stop } = poll(async () => {
    try {
      const { data } = await call("GET", url, { credentials: "include" });
      token = /** @type {{ token?: string }} */ (data).token ?? null;
      failures = 0;
    } catch (error) {
      // Without an answer, the token is good until it ends.
      if (codeOf(error) === "unauthenticated") [token, failures] = [null, 0];
      else failures += 1;
    }
    isKnown = true;
    onChange();
    if (failures) return 60 * backoff(Math.min(failures, MAX_DOUBLINGS));
    return token ? lifetime(token) * (0.6 + 0.2 * Math.random()) : 5 * MINUTE;
  });
  return { token: () => token, isKnown: () => isKnown, stop };
}

/** The life of a token, in milliseconds. @param {string} token */
function lifetime(token) {
  const { iat = 0, exp = 0 } = claimsOf(token);
  return iat && exp ? Math.max(MINUTE, 1_000 * (exp - iat)) : 10 * MINUTE;
}
