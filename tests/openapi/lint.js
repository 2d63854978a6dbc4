// Checks the OpenAPI document with Redocly's rules. Not with its command: version 1 has 250 packages, version 2 needs
// Node 20, and Debian 12 has Node 18.

import { formatProblems, getTotals, lint, loadConfig } from "@redocly/openapi-core";

const config = await loadConfig({ configPath: "lint.yaml" });
const problems = await lint({ ref: "../../static/openapi.json", config });
const totals = getTotals(problems);
formatProblems(problems, { totals });
process.exitCode = totals.errors + totals.warnings > 0 ? 1 : 0;
