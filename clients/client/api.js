// Calls of the HTTP API.
// SPDX-License-Identifier: Apache-2.0
/** @import { Call, CreateApi, IsFinal } from './types.js' */

/** Milliseconds after which a call fails. */
const LIMIT = 20_000;

/** Returns true if a retry cannot help. @type {IsFinal} */
export const isFinal = ({ status = 0 }) => status >= 400 && status < 500 && ![408, 425, 429].includes(status);

/**
 * Creates the function for calls. It throws a `Failure` unless the answer is 2xx. After a 401 it retries once with a new token.
 * @type {CreateApi}
 */
export const createApi = ({
  url,
  apiKey,
  user,
  getToken,
  headerPrefix = 'X-SERVICE',
  fetch = (...call) => globalThis.fetch(...call),
}) => {
  const base = `${url.replace(/\/+$/, '')}/v3`;
  const prefix = headerPrefix.replace(/-*$/, '-');
  /** @type {Promise<string> | undefined} */
  let token;
  /** @type {Call} */
  const call = async (
    path,
    { method = 'GET', body, headers, device = {}, signal = AbortSignal.timeout(LIMIT) } = {},
  ) => {
    for (let retried = false; ; retried = true) {
      const used = getToken && (token ??= Promise.resolve().then(getToken));
      used?.catch(call.renew);
      const all = { ...headers, [`${prefix}API-KEY`]: apiKey, [`${prefix}USER-ID`]: user };
      for (const name in device) all[`${prefix}DEVICE-${name}`] = device[name];
      if (used) all.Authorization = `Bearer ${await used}`;
      if (body) all['Content-Type'] = 'application/json';
      // With keepalive, a change arrives even if the page closes meanwhile.
      const init = {
        method,
        headers: all,
        signal,
        keepalive: method !== 'GET',
        body: body ? JSON.stringify(body) : undefined,
      };
      const response = await fetch(base + path, { ...init, credentials: 'omit', cache: 'no-store' });
      if (response.ok) return response;
      if (response.status === 401 && used && !retried) {
        if (token === used) call.renew();
        continue;
      }
      const { message = response.statusText, code } = await response.json().catch(() => ({}));
      const retryAfter = Number(response.headers.get('Retry-After'));
      throw Object.assign(new Error(message), { status: response.status, code, retryAfter });
    }
  };
  call.renew = () => {
    token = undefined;
  };
  return call;
};
