// A shop without its admin pages.

const { defineConfig } = require("@medusajs/framework/utils");

module.exports = defineConfig({
  admin: { disable: true },
  projectConfig: {
    databaseUrl: process.env.DATABASE_URL,
    http: { storeCors: "", adminCors: "", authCors: "", jwtSecret: "only for tests", cookieSecret: "only for tests" },
  },
  modules: [
    {
      resolve: "@medusajs/medusa/order",
      options: { generateCustomDisplayId: async ({ metadata }) => metadata?.stampede_order },
    },
  ],
});
