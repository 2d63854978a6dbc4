// The server's clock (A2), estimated from responses. The device's clock is not used; only elapsed time is measured.

// A response may come from a cache, so its server time can be this much older than the request. In milliseconds.
const MAX_CACHE_AGE_MS = 2_000;

/** The header `Date` counts whole seconds. */
const DATE_STEP_MS = 1_000;

/**
 * Makes a clock that is not set.
 * @param {() => number} now Elapsed time in milliseconds, such as `performance.now`.
 */
export function createClock(now) {
  /** Server time minus `now()`; undefined until the first response. @type {number | undefined} */
  let offset;
  /** Bounds of the offset, from all responses so far. */
  let minOffset = -Infinity;
  let bestRoundTrip = Infinity;

  /**
   * Updates the clock from a response with `serverTime` and, unless it is null, the time `date` at which a server or
   * cache sent it; sent at `sentAt` and received at `receivedAt`, both by `now`.
   *
   * The first response sets the clock: its server time plus half the round trip. A response with a shorter round trip
   * sets it again, because half a round trip is the largest possible error. Every response also gives bounds: it was
   * written before it was received, and at most `MAX_CACHE_AGE_MS` before it was requested. If `date` agrees with that,
   * it says within a second when the response left the cache. The offset stays within the bounds.
   * @param {string} serverTime
   * @param {{ sentAt: number, receivedAt: number, date?: number | null }} response
   */
  function observe(serverTime, { sentAt, receivedAt, date = null }) {
    const serverNow = Date.parse(serverTime);
    if (!Number.isFinite(serverNow)) return;
    const roundTrip = receivedAt - sentAt;
    if (roundTrip <= bestRoundTrip) {
      offset = serverNow + roundTrip / 2 - receivedAt;
      bestRoundTrip = roundTrip;
    }
    let [earliest, latest] = [serverNow, serverNow + MAX_CACHE_AGE_MS];
    if (date !== null && date + DATE_STEP_MS > earliest && date <= latest) {
      earliest = Math.max(earliest, date);
      latest = Math.min(latest, date + DATE_STEP_MS);
    }
    const maxOffset = latest - sentAt;
    minOffset = Math.min(Math.max(minOffset, earliest - receivedAt), maxOffset);
    offset = Math.min(Math.max(/** @type {number} */ (offset), minOffset), maxOffset);
  }

  /** The server's time now, in milliseconds since 1970; NaN until it is known. */
  const serverNow = () => (offset === undefined ? NaN : now() + offset);

  return {
    observe,
    /** Whether a response has set the clock. */
    isSet: () => offset !== undefined,
    now: serverNow,
    /**
     * Milliseconds until `moment`, an RFC 3339 time; negative when it has passed.
     * @param {string} moment
     */
    millisecondsUntil: (moment) => Date.parse(moment) - serverNow(),
  };
}
