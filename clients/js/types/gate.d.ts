/**
 * @typedef {object} WatchOptions
 * @property {(gate: Gate) => void} [onChange] Called after every successful poll.
 * @property {(error: unknown) => void} [onError] Called after every failed poll.
 * @property {() => boolean} [isAllSoldOut] Whether every SKU is sold out: the gate is then polled less often.
 * @property {() => boolean} [isPaused] Whether polling rests, such as on a hidden page: call `refresh` afterwards.
 */
/**
 * Starts polling the gate.
 * @param {{ gate: (activity: string) => Promise<Gate>, clock: ReturnType<typeof import("./clock.js").createClock> }} client
 * @param {string} activity
 * @param {WatchOptions} options
 */
export function watchGate(client: {
    gate: (activity: string) => Promise<Gate>;
    clock: ReturnType<typeof import("./clock.js").createClock>;
}, activity: string, options: WatchOptions): {
    startKey: ({ signal, refusedKey, onWait }?: {
        signal?: AbortSignal;
        refusedKey?: string | null;
        onWait?: (gate: Gate | null) => void;
    }) => Promise<string>;
    /** The gate as polled last, or null. */
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
    /** Polls at once. */
    refresh: () => Promise<void>;
    stop: () => void;
};
export type WatchOptions = {
    /**
     * Called after every successful poll.
     */
    onChange?: (gate: Gate) => void;
    /**
     * Called after every failed poll.
     */
    onError?: (error: unknown) => void;
    /**
     * Whether every SKU is sold out: the gate is then polled less often.
     */
    isAllSoldOut?: () => boolean;
    /**
     * Whether polling rests, such as on a hidden page: call `refresh` afterwards.
     */
    isPaused?: () => boolean;
};
export type Gate = import("../types/api.js").components["schemas"]["GateDocument"];
