/** A refusal by the server: decide by `code`; `detail` is text for people, `retryAfter` is in milliseconds or null. */
export class Problem extends Error {
    /**
     * @param {{ status: number, code: string, detail?: string, errors?: { detail: string, pointer?: string }[],
     *   retryAfter?: number | null }} fields
     */
    constructor({ status, code, detail, errors, retryAfter }: {
        status: number;
        code: string;
        detail?: string;
        errors?: {
            detail: string;
            pointer?: string;
        }[];
        retryAfter?: number | null;
    });
    status: number;
    code: string;
    detail: string;
    errors: {
        detail: string;
        pointer?: string;
    }[];
    retryAfter: number;
}
/** No response arrived. The server may or may not have processed the request. */
export class Unreachable extends Error {
}
/** The caller's signal was aborted. `AbortSignal.reason` came with Chrome 98, so this is thrown in its place. */
export class Aborted extends Error {
    constructor();
}
export function isTransient(error: unknown): boolean;
