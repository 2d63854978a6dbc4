// Texts and classification of errors for the pages of buyers.

import { locale } from "./format.js";
import { t, words } from "./i18n.js";
import { Unreachable, client } from "./client.js";

export { isTransient } from "./client.js";

/** The text to show for an error of a request. */
export const explain = (error) => client.explain(error, locale, words);

/** As `explain`, for requests about orders, which have no ticket to keep. */
export const explainOrder = (error) => (error instanceof Unreachable && navigator.onLine ? t("problem.no_answer") : explain(error));
