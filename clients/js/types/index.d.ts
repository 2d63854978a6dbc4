/**
 * Makes a client. Calls resolve to the response's document, and throw `Problem`, `Unreachable` or `Aborted`.
 * @param {object} [settings]
 * @param {string} [settings.baseUrl] The app's origin; the default is the page's own.
 * @param {() => string | null} [settings.token] The shop's JWT of the buyer. Calls with a `token` of their own send that.
 * @param {typeof fetch} [settings.fetch]
 * @param {() => number} [settings.now] Elapsed time in milliseconds; it must not follow changes of the device's clock.
 */
export function createClient({ baseUrl, token: currentToken, fetch, now, }?: {
    baseUrl?: string;
    token?: () => string | null;
    fetch?: typeof globalThis.fetch;
    now?: () => number;
}): {
    /** The client's elapsed time. */
    now: () => number;
    /** The server's clock, which every response with a server time corrects. */
    clock: {
        observe: (serverTime: string, { sentAt, receivedAt, date }: {
            sentAt: number;
            receivedAt: number;
            date?: number | null;
        }) => void;
        isSet: () => boolean;
        now: () => any;
        millisecondsUntil: (moment: string) => number;
    };
    /** Sends any request, without the token, and resolves to the response. */
    call: (method: string, path: string, { body, token, etag, version, signal, timeout }?: import("./http.js").RequestOptions) => Promise<{
        status: number;
        data: any;
        etag: string;
        date: number;
        retryAfter: number;
        sentAt: number;
        receivedAt: number;
    }>;
    post: (path: any, options: any) => Promise<{
        status: number;
        data: any;
        etag: string;
        date: number;
        retryAfter: number;
        sentAt: number;
        receivedAt: number;
    }>;
    /** The published activities. @returns {Promise<Schemas["ActivitySummary"][]>} */
    activities: () => Promise<Schemas["ActivitySummary"][]>;
    /** One activity. @param {string} activity @param {CallOptions} [options] @returns {Promise<Schemas["Activity"]>} */
    activity: (activity: string, { signal }?: CallOptions) => Promise<Schemas["Activity"]>;
    /** The gate. @param {string} activity @param {CallOptions} [options] @returns {Promise<Schemas["GateDocument"]>} */
    gate: (activity: string, { signal }?: CallOptions) => Promise<Schemas["GateDocument"]>;
    /**
     * A human check, where `ticket` answers `human_check_required`.
     * @param {string} activity @param {Schemas["ChallengeOptions"]} [body] @param {CallOptions} [options] @returns {Promise<any>}
     */
    challenge: (activity: string, body?: Schemas["ChallengeOptions"], options?: CallOptions) => Promise<any>;
    /**
     * A ticket, from 30 minutes before the start. `proof` is the solution of a human check.
     * @param {string} activity @param {Schemas["Solution"]} [proof] @param {CallOptions} [options]
     * @returns {Promise<Schemas["Ticket"]>}
     */
    ticket: (activity: string, proof?: Schemas["Solution"], options?: CallOptions) => Promise<Schemas["Ticket"]>;
    /**
     * One try to reserve: `buy` retries it.
     * @param {string} activity @param {Schemas["Reservation"]} body @param {CallOptions} [options]
     * @returns {Promise<Schemas["Order"]>}
     */
    placeOrder: (activity: string, body: Schemas["Reservation"], { signal }?: CallOptions) => Promise<Schemas["Order"]>;
    /**
     * The buyer's orders, newest first; `before` is the last order's number of the page before.
     * @param {{ before?: string | null, limit?: number }} [page] @param {CallOptions} [options]
     * @returns {Promise<Schemas["Order"][]>}
     */
    orders: ({ before, limit }?: {
        before?: string | null;
        limit?: number;
    }, options?: CallOptions) => Promise<Schemas["Order"][]>;
    /** The response about an order, `304` too. @param {string} orderNo @param {CallOptions & { etag?: string | null }} [options] */
    readOrder: (orderNo: string, options?: CallOptions & {
        etag?: string | null;
    }) => Promise<{
        status: number;
        data: any;
        etag: string;
        date: number;
        retryAfter: number;
        sentAt: number;
        receivedAt: number;
    }>;
    /** An order. @param {string} orderNo @param {CallOptions} [options] @returns {Promise<Schemas["Order"]>} */
    order: (orderNo: string, options?: CallOptions) => Promise<Schemas["Order"]>;
    /** @param {string} orderNo @param {CallOptions} [options] @returns {Promise<Schemas["Order"]>} */
    cancel: (orderNo: string, options?: CallOptions) => Promise<Schemas["Order"]>;
    /** @param {string} orderNo @param {CallOptions} [options] @returns {Promise<Schemas["Order"]>} */
    refund: (orderNo: string, options?: CallOptions) => Promise<Schemas["Order"]>;
    /** @param {string} activity @param {import("./gate.js").WatchOptions} [options] */
    watchGate: (activity: string, options?: import("./gate.js").WatchOptions) => {
        startKey: ({ signal, refusedKey, onWait }?: {
            signal?: AbortSignal;
            refusedKey?: string | null;
            onWait?: (gate: Gate | null) => void;
        }) => Promise<string>;
        current: () => {
            ends_at: string;
            jitter_ms: number;
            phase: import("../types/api.js").components["schemas"]["Phase"];
            server_time: string;
            sold_out: import("../types/api.js").components["schemas"]["SkuId"][];
            start_key?: string;
            starts_at: string;
            version: number;
        };
        refresh: () => Promise<void>;
        stop: () => void;
    };
    /** @param {string} activity @param {import("./attempt.js").BuyOptions} options */
    buy: (activity: string, options: import("./attempt.js").BuyOptions) => Promise<import("./attempt.js").Outcome>;
    /** @param {string} orderNo @param {import("./orders.js").PollOptions} [options] */
    pollOrder: (orderNo: string, options?: import("./orders.js").PollOptions) => {
        runNow: () => Promise<void>;
        stop: () => void;
    };
    /** @param {string} orderNo @param {import("./orders.js").CheckoutOptions} [options] */
    checkout: (orderNo: string, options?: import("./orders.js").CheckoutOptions) => Promise<{
        checkout_url: string;
        pay_by: string;
    }>;
};
export { TICKETS_BEFORE_START } from "./attempt.js";
export type Schemas = import("../types/api.js").components["schemas"];
export type CallOptions = {
    token?: string | null;
    signal?: AbortSignal;
};
export type Client = ReturnType<typeof createClient>;
export { Aborted, Problem, Unreachable, isTransient } from "./errors.js";
export { backoff, poll, randomUpTo, sleep } from "./timing.js";
