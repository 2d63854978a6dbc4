/**
 * Resolves after `milliseconds`. Rejects with `Aborted` when `signal` is aborted.
 * @param {number} milliseconds
 * @param {AbortSignal} [signal]
 * @returns {Promise<void>}
 */
export function sleep(milliseconds: number, signal?: AbortSignal): Promise<void>;
/**
 * The delay before a retry, in milliseconds: doubles from 0.5 s to at most 15 s. Half of it is random, so that pages
 * that failed at the same time do not retry at the same time.
 * @param {number} failures
 */
export function backoff(failures: number): number;
/**
 * Calls `step` at once and then repeatedly. `step` resolves to the delay until the next call in milliseconds, or to
 * null to stop. While `isPaused()`, such as on a hidden page, it is not called; the caller then calls `runNow`.
 * Two calls never run at the same time.
 *
 * Returns `runNow()`, which calls at once or joins the call in progress, and `stop()`.
 * @param {() => Promise<number | null>} step
 * @param {{ isPaused?: () => boolean }} [options]
 */
export function poll(step: () => Promise<number | null>, { isPaused }?: {
    isPaused?: () => boolean;
}): {
    runNow: () => Promise<void>;
    stop: () => void;
};
export function randomUpTo(limit: number): number;
