// The key of this page's session. Browsers send a cookie to every port of its host, so that another server there could use it again;
// what a page stores belongs to its own port alone. The hub wants both (link/guard.py).
const NAME = "tandem-page";
const given = new URLSearchParams(location.hash.slice(1)).get("page");
if (given) {
  localStorage.setItem(NAME, given);
  history.replaceState(null, "", location.pathname + location.search);
}

/** Read anew each time: another tab may have logged in again. */
const key = () => localStorage.getItem(NAME) ?? "";

export const ask = (path, options = {}) => fetch(path, { ...options, headers: { "x-tandem-page": key() } });

export const openSocket = (path) =>
  new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${path}?page=${encodeURIComponent(key())}`);

/** Only a new login helps: the hub answers every navigation but the one to its page with the form for it. */
export const logInAgain = () => location.replace("/login");
