// Makes each call of the currency API with the generated types, as a program of
// a client does.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

const baseUrl = process.env.BASE!;

function must<T>(what: string, result: { data?: T; error?: unknown; response: Response }): T {
  if (result.data === undefined) throw new Error(`${what}: ${result.response.status} ${JSON.stringify(result.error)}`);
  return result.data;
}

const open = createClient<paths>({ baseUrl });
const login = must("login", await open.POST("/api/login", {
  body: { email: process.env.EMAIL!, password: process.env.PASSWORD! },
}));

// The second argument is the media type of the answers.
const headers = { Authorization: `Bearer ${login.token}` };
const api = createClient<paths, "application/json">({ baseUrl, headers });
const rows = createClient<paths, "text/csv">({ baseUrl, headers: { ...headers, Accept: "text/csv" } });
const currencies = must("currencies", await api.GET("/api/currencies"));
const convert = must("convert", await api.GET("/api/convert/{from}/{amount}/{to}", {
  params: { path: { from: "EUR", amount: "10", to: "USD" } },
}));
type Source = "ECB" | "parity" | "indicative";
const source: Source | "ECB+parity" | "ECB+indicative" | "parity+indicative" | "ECB+parity+indicative" = convert.source;
const parity: { base: string; rate: number; authority: string } | undefined = currencies.currencies.find(c => c.source === "parity")?.parity;
const rates = must("rates", await api.GET("/api/rates/{base}", {
  params: { path: { base: "EUR" }, query: { symbols: "USD,GBP" } },
}));
const history = must("history", await api.GET("/api/history/{from}/{to}", {
  params: { path: { from: "EUR", to: "USD" }, query: { summary: "change", source: "ECB" } },
}));
const change: number | undefined = history.summary && "change" in history.summary ? (history.summary as components["schemas"]["Summary"]).change : undefined;
const many = must("history of many", await api.GET("/api/history/{from}/{to}", {
  params: { path: { from: "EUR", to: "USD,GBP,XOF" } },
}));
const csv: string = must("CSV", await rows.GET("/api/rates/{base}", {
  params: { path: { base: "EUR" } }, parseAs: "text",
}));
const batch = must("batch", await api.POST("/api/convert/batch", {
  body: { conversions: [{ from: "EUR", to: "USD", amount: 10 }] },
}));
const usage = must("usage", await api.GET("/api/usage", { params: { query: { days: 2 } } }));

const refused = await api.GET("/api/convert/{from}/{amount}/{to}", {
  params: { path: { from: "EURO", amount: "10", to: "USD" } },
});
const code: components["schemas"]["ApiError"]["code"] | undefined = refused.error?.code;

const seen = [currencies.count > 100, convert.to === "USD", source.length > 0, Object.keys(rates.rates).length === 3, history.count > 0,
  change !== undefined, (history.rates[0].rate ?? 0) > 0, Object.keys(many.rates[0].rates ?? {}).join() === "GBP,USD,XOF", parity !== undefined && parity.rate > 0,
  csv.startsWith("date,base,code,rate,source\n"),
  batch.succeeded === 1, usage.recent_calls.length >= 5, code === "invalid_currency"];
if (seen.includes(false)) throw new Error(JSON.stringify(seen));
