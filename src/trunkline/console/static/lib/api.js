// Requests to the gateway, all of them below its own origin.
import { Value } from "./state.js";

// Who uses the page: `null` before it is known, `{ signedIn: false }`, or the answer of /auth/me.
export const me = new Value(null);
// The answer of GET /api/v1/gateway.
export const gateway = new Value(null);
// Whether the gateway answers: "yes", or "no" after a request that could not be made.
export const reachable = new Value("yes");

export class ApiError extends Error {
  constructor(status, message, { reason = "", retryAfterS = 0, fields = [] } = {}) {
    super(message);
    this.status = status;
    this.reason = reason;
    this.retryAfterS = retryAfterS;
    this.fields = fields;
  }
}

// The cookie of the page counts only beside this header, which no other site can send.
export const OWN = { "Trunkline-Page": "1" };

export const isOperator = () => (me.get()?.roles ?? []).includes("operator");

// A response of the gateway. Throws ApiError when there is none; an answer with an error status is
// returned, for callers that show it as it came.
export async function request(path, options = {}) {
  let response;
  try {
    response = await fetch(path, {
      credentials: "same-origin",
      cache: "no-store",
      redirect: "error",
      ...options,
      headers: { ...OWN, ...options.headers },
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    reachable.set("no");
    throw new ApiError(0, "The gateway does not answer. It may be restarting; the page tries again.");
  }
  reachable.set("yes");
  if (response.status === 401 && me.get()?.signedIn) {
    // The page stays as it is, so that drafts are not lost; app.js shows how to sign in again.
    me.set({ signedIn: false, wasSignedIn: true });
  }
  return response;
}

// JSON of `/api/v1`. Throws ApiError with the sentence of the gateway.
export async function api(path, { method = "GET", body, query, signal, headers } = {}) {
  const response = await request(`/api/v1${path}${queryOf(query)}`, {
    method,
    signal,
    headers: { ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...headers },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (!response.ok) throw await refusal(response);
  if (response.status === 204) return null;
  try {
    return await response.json();
  } catch {
    throw new ApiError(response.status, "The gateway's answer is not JSON, or it broke off.");
  }
}

export async function refusal(response) {
  let message = `The gateway answered with status ${response.status}.`;
  let reason = "";
  let fields = [];
  try {
    const { error } = await response.json();
    if (typeof error?.message === "string") message = error.message;
    for (const detail of error?.details ?? []) {
      reason ||= detail?.reason ?? "";
      fields = fields.concat(detail?.fieldViolations ?? []);
    }
  } catch {
    // No JSON: the status says what there is to say.
  }
  const retryAfterS = Number(response.headers.get("retry-after")) || 0;
  return new ApiError(response.status, message, { reason, retryAfterS, fields });
}

export function queryOf(query) {
  const pairs = Object.entries(query ?? {}).filter(
    ([, value]) => value !== undefined && value !== null && value !== "" && value !== false,
  );
  return pairs.length ? `?${new URLSearchParams(pairs.map(([k, v]) => [k, String(v)]))}` : "";
}

// All items of a list that comes in pages, at most `limit`.
export async function everyItem(path, query, { limit = 1000, signal } = {}) {
  const items = [];
  let pageToken = "";
  do {
    const page = await api(path, { query: { ...query, pageToken }, signal });
    items.push(...page.items);
    pageToken = page.nextPageToken;
  } while (pageToken && items.length < limit);
  return items;
}
