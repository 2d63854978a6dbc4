// Gets tickets, and has the human check solved where the server asks for one.

import { Problem } from "./errors.js";
import { randomUpTo, sleep } from "./timing.js";

/**
 * @typedef {import("../types/api.js").components["schemas"]} Schemas
 * @typedef {Schemas["AltchaChallenge"] & { captcha?: undefined, hosted?: undefined }
 *   | Schemas["CaptchaChallenge"] & { hosted?: undefined } | Schemas["HostedChallenge"] & { captcha?: undefined }} Challenge
 * @typedef {(request: CheckRequest) => Promise<Schemas["Solution"]>} SolveCheck
 * Solves a human check. Resolves to the members of the ticket request: `{altcha}`, `{captcha: {id, answer, …}}` or `{hosted}`.
 */

/**
 * @typedef {object} CheckRequest
 * @property {(options?: Schemas["ChallengeOptions"]) => Promise<Challenge>} challenge Requests a challenge, or another one.
 * @property {boolean} wasWrong Whether the visitor's last answer was wrong.
 */

/**
 * @typedef {object} TicketOptions
 * @property {string} [check] The activity's `human_check`: a check that everybody gets is solved before the first request.
 * @property {SolveCheck} [solveCheck] Without it, a ticket that needs a check is refused.
 * @property {string | null} [token]
 * @property {AbortSignal} [signal]
 */

/** How long before the start tickets are issued, in milliseconds. */
export const TICKETS_BEFORE_START = 30 * 60_000;

/** The human checks that every visitor has to solve. */
const CHECKS_FOR_ALL = ["pow", "captcha", "hosted"];

/** Requests that are repeated without an answer of the visitor: a solution can expire before it arrives. */
const MAX_REPEATS = 3;

/**
 * Requests one ticket, with the solution of a human check where the server asks for one.
 * @param {import("./index.js").Client} client
 * @param {string} activity
 * @param {TicketOptions} options
 */
export async function ticketWithCheck(client, activity, { check = "none", solveCheck, ...call }) {
  let needsProof = CHECKS_FOR_ALL.includes(check);
  let proof = /** @type {Schemas["Solution"]} */ ({});
  for (let tries = 0; ; tries += 1) {
    try {
      if (needsProof && solveCheck) {
        const challenge = (options = {}) => client.challenge(activity, options, call);
        proof = await solveCheck({ challenge, wasWrong: Boolean(proof.captcha) });
      }
      return await client.ticket(activity, proof, call);
    } catch (error) {
      const asksForCheck =
        error instanceof Problem && ["human_check_required", "human_check_failed"].includes(error.code);
      // A wrong answer of the visitor always brings another puzzle: the server limits how many.
      if (!asksForCheck || !solveCheck || (tries >= MAX_REPEATS && !proof.captcha)) throw error;
      needsProof = true;
    }
  }
}

/**
 * Obtains one ticket, and waits until tickets are issued. Concurrent callers share it, until it is dropped; an error is
 * for them, and the next caller tries again.
 * @param {import("./index.js").Client} client
 * @param {string} activity
 * @param {TicketOptions} options
 */
export function keepTicket(client, activity, { signal, ...options }) {
  /** @type {Promise<Schemas["Ticket"]> | null} */
  let ticket = null;
  const fetchTicket = async () => {
    for (;;) {
      const { starts_at: start } = await client.gate(activity, { signal });
      const early = client.clock.millisecondsUntil(start) - TICKETS_BEFORE_START;
      if (early <= 0) return client.ticketWithCheck(activity, { signal, ...options });
      await sleep(Math.min(early + randomUpTo(5_000), 10 * 60_000), signal);
    }
  };
  return {
    /** @returns {Promise<Schemas["Ticket"]>} */
    obtainTicket() {
      ticket ??= fetchTicket().catch((error) => {
        ticket = null;
        throw error;
      });
      return ticket;
    },
    dropTicket: () => void (ticket = null),
  };
}
