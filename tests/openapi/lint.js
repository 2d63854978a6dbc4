// Checks the OpenAPI documents with Redocly's rules. Not with its command: version 1 has 250 packages, version 2 needs
// Node 20, and Debian 12 has Node 18.

import { formatProblems, getTotals, lint, loadConfig } from "@redocly/openapi-core";

const config = await loadConfig({ configPath: "lint.yaml" });
for (const ref of ["../../static/openapi.json", "../../docs/payments.openapi.json"]) {
  const problems = await lint({ ref, config });
  const totals = getTotals(problems);
  formatProblems(problems, { totals });
  if (totals.errors + totals.warnings > 0) process.exitCode = 1;
}
