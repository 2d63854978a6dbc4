/**
 * @typedef {object} RequestOptions
 * @property {unknown} [body] Sent as JSON.
 * @property {string | null} [token] Sent as bearer.
 * @property {string | null} [etag] Sent as `If-None-Match`.
 * @property {number} [version] Sent as `If-Match`.
 * @property {AbortSignal} [signal]
 * @property {number} [timeout] In milliseconds.
 */
/**
 * Makes the function that sends one request. It resolves to `{status, data, etag, date, retryAfter, sentAt, receivedAt}`:
 * `sentAt` and `receivedAt` are by `now`, `date` (or null) is when the response was sent, in milliseconds since 1970, and
 * `retryAfter` is in milliseconds or null. It throws `Problem`, `Unreachable` or `Aborted`.
 * @param {{ baseUrl: string, fetch: typeof fetch, now: () => number }} settings
 */
export function createCall({ baseUrl, fetch, now }: {
    baseUrl: string;
    fetch: typeof globalThis.fetch;
    now: () => number;
}): (method: string, path: string, { body, token, etag, version, signal, timeout }?: RequestOptions) => Promise<{
    status: number;
    data: any;
    etag: string;
    date: number;
    retryAfter: number;
    sentAt: number;
    receivedAt: number;
}>;
export type RequestOptions = {
    /**
     * Sent as JSON.
     */
    body?: unknown;
    /**
     * Sent as bearer.
     */
    token?: string | null;
    /**
     * Sent as `If-None-Match`.
     */
    etag?: string | null;
    /**
     * Sent as `If-Match`.
     */
    version?: number;
    signal?: AbortSignal;
    /**
     * In milliseconds.
     */
    timeout?: number;
};
