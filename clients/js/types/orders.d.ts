/**
 * @typedef {object} PollOptions
 * @property {() => string | null} [token] The credential: the ticket that made the order, which costs the server less, or
 *   the shop's JWT (the default).
 * @property {(order: Order) => void} [onChange] Called after every successful poll.
 * @property {(error: unknown) => void} [onError] Called after every failed poll. Only a transient error is repeated.
 * @property {() => boolean} [isPaused] Whether polling rests, such as on a hidden page: call `runNow` afterwards.
 */
/**
 * Polls an order as `Retry-After` says, until nothing happens to it any more.
 * Returns `runNow()`, which polls at once, and `stop()`, after which nothing is called.
 * @param {import("./index.js").Client} client
 * @param {string} orderNo
 * @param {PollOptions} options
 */
export function pollOrder(client: import("./index.js").Client, orderNo: string, { token, onChange, onError, isPaused }: PollOptions): {
    runNow: () => Promise<void>;
    stop: () => void;
};
/**
 * @typedef {object} CheckoutOptions
 * @property {object} [address] Where to deliver.
 * @property {string} [language] Of the payment page, such as `en` or `zh-CN`.
 * @property {string | null} [token]
 * @property {AbortSignal} [signal]
 * @property {(error: unknown, until: number) => void} [onWait] Called before another try; `until` is by the client's `now`.
 */
/**
 * Opens the payment. Tries again while the provider is slow: an order has one payment.
 * @param {import("./index.js").Client} client
 * @param {string} orderNo
 * @param {CheckoutOptions} options
 * @returns {Promise<import("../types/api.js").components["schemas"]["CheckedOut"]>}
 */
export function checkout(client: import("./index.js").Client, orderNo: string, { address, language, token, signal, onWait }: CheckoutOptions): Promise<import("../types/api.js").components["schemas"]["CheckedOut"]>;
export type PollOptions = {
    /**
     * The credential: the ticket that made the order, which costs the server less, or
     * the shop's JWT (the default).
     */
    token?: () => string | null;
    /**
     * Called after every successful poll.
     */
    onChange?: (order: Order) => void;
    /**
     * Called after every failed poll. Only a transient error is repeated.
     */
    onError?: (error: unknown) => void;
    /**
     * Whether polling rests, such as on a hidden page: call `runNow` afterwards.
     */
    isPaused?: () => boolean;
};
export type CheckoutOptions = {
    /**
     * Where to deliver.
     */
    address?: object;
    /**
     * Of the payment page, such as `en` or `zh-CN`.
     */
    language?: string;
    token?: string | null;
    signal?: AbortSignal;
    /**
     * Called before another try; `until` is by the client's `now`.
     */
    onWait?: (error: unknown, until: number) => void;
};
export type Order = import("../types/api.js").components["schemas"]["Order"];
