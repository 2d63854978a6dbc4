// Gets tickets, and has the human check solved where the server asks for one.

import { Problem } from "./errors.js";
import { randomUpTo, sleep } from "./timing.js";
import { claimsOf } from "./token.js";

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
 * @property {string} [code] The visitor's presale code, which is looked at before a check; empty where the activity asks for one
 *   and none was given.
 * @property {string | null} [token]
 * @property {Pick<Storage, "getItem" | "setItem" | "removeItem">} [storage] Of `keepTicket`: keeps the ticket for this user,
 *   such as `sessionStorage`, so that `resume` finds the attempt after a reload.
 * @property {AbortSignal} [signal]
 */

/**
 * What a client knows of a ticket: `unanswered` if a request carried it and the answer is not known, `wanted` by the attempt
 * that runs, and `isUsed` once it has made an order.
 * @typedef {Schemas["Ticket"] & { unanswered?: boolean, wanted?: Wanted, isUsed?: boolean }} Ticket
 * @typedef {{ obtainTicket: () => Promise<Ticket>, dropTicket: (used?: Ticket) => void, saveTicket: (ticket: Ticket) => void,
 *   kept: () => Ticket | null }} Tickets
 * @typedef {{ sku: string, quantity?: number, amount?: number }} Wanted
 */

/** A kept ticket that expires within this time is not used. In milliseconds. */
const MIN_REMAINING = 15_000;

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
export async function ticketWithCheck(client, activity, { check = "none", code, solveCheck, ...call }) {
  let needsProof = code === undefined && CHECKS_FOR_ALL.includes(check);
  let proof = /** @type {Schemas["Solution"]} */ ({});
  for (let tries = 0; ; tries += 1) {
    try {
      if (needsProof && solveCheck) {
        const challenge = (options = {}) => client.challenge(activity, options, call);
        proof = await solveCheck({ challenge, wasWrong: Boolean(proof.captcha) });
      }
      return await client.ticket(activity, code ? { ...proof, code } : proof, call);
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
 * Obtains one ticket, and waits until tickets are issued. Concurrent callers share it, until it is dropped or another user
 * signs in; an error is for them, and the next caller tries again.
 * @param {import("./index.js").Client} client
 * @param {string} activity
 * @param {TicketOptions} options
 * @returns {Tickets}
 */
export function keepTicket(client, activity, { storage, signal, ...options }) {
  const key = `stampede.attempt.${activity}`;
  const currentUser = () => claimsOf(options.token ?? client.token()).sub ?? null;
  let user = currentUser();
  /** @type {Promise<Ticket> | null} */
  let ticket = null;
  /** The ticket in the storage, if it is this user's. @returns {Ticket | null} */
  const kept = () => {
    const value = JSON.parse(storage?.getItem(key) ?? "null");
    return value && value.user === currentUser() ? value.ticket : null;
  };
  const isUsable = (/** @type {Ticket} */ { expires_at: end }) => client.clock.millisecondsUntil(end) > MIN_REMAINING;
  const fetchTicket = async (owner = user) => {
    for (;;) {
      const stored = kept();
      // Another ticket could make a second order.
      if (stored?.unanswered) return stored;
      const { starts_at: start } = await client.gate(activity, { signal });
      if (stored && !stored.isUsed && isUsable(stored)) return stored;
      const early = client.clock.millisecondsUntil(start) - TICKETS_BEFORE_START;
      if (early <= 0) {
        const issued = await client.ticketWithCheck(activity, { signal, ...options });
        // What is kept leads to the order of the last attempt, until another one begins.
        const last = kept();
        if (owner === currentUser() && !(last?.isUsed && last.wanted)) saveTicket(issued);
        return issued;
      }
      await sleep(Math.min(early + randomUpTo(5_000), 10 * 60_000), signal);
    }
  };
  /** @param {Ticket} changed */
  const saveTicket = (changed) => storage?.setItem(key, JSON.stringify({ user, ticket: changed }));
  return {
    obtainTicket() {
      if (user !== currentUser()) [user, ticket] = [currentUser(), null];
      ticket ??= fetchTicket().catch((error) => {
        ticket = null;
        throw error;
      });
      return ticket;
    },
    dropTicket(used) {
      ticket = null;
      if (used) saveTicket({ ...used, isUsed: true });
      else storage?.removeItem(key);
    },
    saveTicket,
    kept,
  };
}
