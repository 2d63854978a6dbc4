/**
 * @typedef {object} BuyOptions
 * @property {string} sku
 * @property {number} [quantity]
 * @property {ReturnType<typeof import("./gate.js").watchGate>} [gate] The result of `watchGate`;
 *   without it, the attempt watches the gate itself.
 * @property {() => Promise<Ticket>} [obtainTicket] Resolves to an unused ticket, the same one until it is dropped;
 *   without it, the attempt gets a ticket as soon as tickets are issued.
 * @property {() => void} [dropTicket] Called when the server refused the ticket.
 * @property {(step: { step: "ticket" | "gate" | "sending" | "waiting", error?: unknown, until?: number }) => void} [onStep]
 *   Called with what the attempt is doing; `until` is when it tries again, by the client's `now`.
 * @property {AbortSignal} [signal]
 */
/**
 * Retries until the server has decided. Resolves to `{kind: "accepted", order, ticket}`, `{kind: "refused", error}`, or
 * `{kind: "unknown", ticket}`: an earlier try may have made an order that is not known yet, so the buyer has to look at
 * the list of orders.
 *
 * Once a try may have made an order, every later try sends the same ticket, and the server replays the order of a used
 * ticket. So one attempt makes one order, however many responses are lost.
 * @param {import("./index.js").Client} client
 * @param {string} activity
 * @param {BuyOptions} options
 * @returns {Promise<Outcome>}
 */
export function buy(client: import("./index.js").Client, activity: string, options: BuyOptions): Promise<Outcome>;
/** How long before the start tickets are issued, in milliseconds. */
export const TICKETS_BEFORE_START: number;
export type BuyOptions = {
    sku: string;
    quantity?: number;
    /**
     * The result of `watchGate`;
     * without it, the attempt watches the gate itself.
     */
    gate?: ReturnType<typeof import("./gate.js").watchGate>;
    /**
     * Resolves to an unused ticket, the same one until it is dropped;
     * without it, the attempt gets a ticket as soon as tickets are issued.
     */
    obtainTicket?: () => Promise<Ticket>;
    /**
     * Called when the server refused the ticket.
     */
    dropTicket?: () => void;
    /**
     * Called with what the attempt is doing; `until` is when it tries again, by the client's `now`.
     */
    onStep?: (step: {
        step: "ticket" | "gate" | "sending" | "waiting";
        error?: unknown;
        until?: number;
    }) => void;
    signal?: AbortSignal;
};
export type Ticket = import("../types/api.js").components["schemas"]["Ticket"];
export type Order = import("../types/api.js").components["schemas"]["Order"];
export type Outcome = {
    kind: "accepted";
    order: Order;
    ticket: Ticket;
} | {
    kind: "refused";
    error: unknown;
} | {
    kind: "unknown";
    ticket: Ticket;
};
