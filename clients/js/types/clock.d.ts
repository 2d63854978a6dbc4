/**
 * Makes a clock that is not set.
 * @param {() => number} now Elapsed time in milliseconds, such as `performance.now`.
 */
export function createClock(now: () => number): {
    observe: (serverTime: string, { sentAt, receivedAt, date }: {
        sentAt: number;
        receivedAt: number;
        date?: number | null;
    }) => void;
    /** Whether a response has set the clock. */
    isSet: () => boolean;
    now: () => any;
    /**
     * Milliseconds until `moment`, an RFC 3339 time; negative when it has passed.
     * @param {string} moment
     */
    millisecondsUntil: (moment: string) => number;
};
