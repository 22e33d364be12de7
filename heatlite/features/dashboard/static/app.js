"use strict";
// Copy buttons, and fresh parts of a page when the project's event stream tells of a change.
(() => {
  // Buttons that need a script are hidden without one.
  const reveal = (part) => {
    for (const button of part.querySelectorAll(navigator.clipboard ? "[data-copy], [data-choose]" : "[data-choose]")) button.hidden = false;
  };
  reveal(document);
  document.addEventListener("click", async ({ target: button }) => {
    if (button.dataset.choose) {
      for (const one of document.getElementById(button.dataset.choose).elements) if (one.type === "checkbox") one.checked = true;
    } else if (button.dataset.copy) {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    }
  });

  // A page that a refused form has answered with is fresh from its own address.
  if (document.body.dataset.page) history.replaceState(null, "", document.body.dataset.page);

  // What a refused form has brought back counts as typed.
  if ("typed" in document.body.dataset) {
    for (const one of document.querySelectorAll("form[method=post] input:not([type]), form[method=post] textarea")) {
      const typed = one.value;
      one.defaultValue = "";
      one.value = typed;
    }
  }

  // A second click while the answer is on its way would ask for the same again.
  const sent = new Set();
  document.addEventListener("submit", (event) => {
    if (event.target.method !== "post") return;
    if (sent.has(event.target)) event.preventDefault();
    sent.add(event.target);
  });
  addEventListener("pageshow", () => sent.clear());

  // The message after a form is shown once.
  const address = new URL(location.href);
  if (address.searchParams.has("did")) {
    address.searchParams.delete("did");
    history.replaceState(null, "", address);
  }

  // Addresses → digests of their pages: the server answers 304 to a refresh that would change nothing.
  const tags = new Map([[location.href, document.body.dataset.tag]]);

  // The address has the search that is typed: a fresh list keeps it.
  document.addEventListener("htmx:afterSwap", ({ detail }) => {
    if (detail.target.id === "list") {
      history.replaceState(null, "", detail.pathInfo.finalRequestPath);
      tags.delete(location.href);
    }
    reveal(document);
  });

  // Ages go on without the server, as `age` in rendering.py writes them.
  const age = (since) => {
    const seconds = (Date.now() - since) / 1000, ahead = seconds < -1 ? "in " : "", size = Math.abs(seconds);
    for (const [unit, most] of [["d", 86400], ["h", 3600], ["min", 60]]) if (size >= most) return `${ahead}${Math.floor(size / most)} ${unit}`;
    return `${ahead}${Math.floor(size)} s`;
  };
  setInterval(() => {
    if (!document.hidden) for (const one of document.querySelectorAll("time[datetime]")) one.textContent = age(Date.parse(one.dateTime));
  }, 10000);

  const source = document.body.dataset.events;
  const sign = document.getElementById("live");
  const parts = () => document.querySelectorAll("[data-live][id]");
  if (!source || !parts().length) return;

  // A part with a form that is being filled in stays as it is.
  const edited = (part) => [...part.querySelectorAll("input, select, textarea")].some((one) =>
    one.type === "checkbox" || one.type === "radio" ? one.checked !== one.defaultChecked
      : one.options ? [...one.options].some((option) => option.selected !== option.defaultSelected && one.selectedIndex > 0)
        : one.type !== "hidden" && one.value !== one.defaultValue);

  const QUIET = 250, PACE = 1000, RETRY = 5000, MOST_RETRY = 60000;
  const calm = Number(document.body.dataset.calm) * 1000;
  let took = 0, pending = 0, last = 0, running = false, again = false;

  // A session has ended. What is typed stays: another tab logs in, and the form is shown again with a new token.
  const leave = (login) => {
    if (![...document.querySelectorAll("form[method=post]")].some(edited)) { location.assign(login); return; }
    const link = document.createElement("a");
    [link.href, link.target, link.textContent] = [login, "_blank", "session ended: log in"];
    sign.replaceChildren(link);
  };
  // Another tab may have logged another user in, for whom the fresh forms would act.
  const user = (page) => page.querySelector(".user")?.textContent;
  const load = async (address) => {
    const headers = { "HX-Request": "true" };
    if (tags.get(address)) headers["If-None-Match"] = tags.get(address);
    const answer = await fetch(address, { headers, credentials: "same-origin" });
    const login = answer.headers.get("HX-Redirect");
    if (login) leave(login);
    if (answer.status === 404 && address === location.href) sign.textContent = "gone";
    if (answer.status >= 500) setTimeout(soon, RETRY);
    if (!answer.ok || login) return null;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (user(page) === user(document)) return page;
    leave(location.href);
    return null;
  };
  // Only what differs is replaced: a large table stays smooth, and a selection or an open menu stays.
  const merge = (old, fresh) => {
    if (old.isEqualNode(fresh) || (old.dataset?.graph && old.dataset.graph === fresh.dataset?.graph)) return;
    if (old.localName === "details") fresh.open = old.open;
    const before = [...old.childNodes], after = [...fresh.childNodes];
    const isAlike = before.length && before.length === after.length && old.cloneNode(false).isEqualNode(fresh.cloneNode(false));
    if (isAlike) before.forEach((one, at) => merge(one, after[at]));
    else old.replaceWith(fresh);
  };
  const FOCUSED = "a[href], button, summary";
  // Rows have the same buttons: the fields of their forms tell them apart.
  const named = (one) => {
    const form = one.form || one.parentElement?.querySelector(":scope > form");
    return one.getAttribute("href") || one.textContent + (form ? new URLSearchParams(new FormData(form)) : "");
  };

  const refresh = async () => {
    pending = 0;
    if (running) { again = true; return; }
    running = true;
    const here = location.href, pages = new Map(), waiting = new Set();
    try {
      const begun = Date.now();
      for (const old of parts()) {
        const from = old.dataset.from || here;
        if (!pages.has(from)) pages.set(from, await load(from));
      }
      took = Date.now() - begun;
      // A search that was typed meanwhile has changed the list.
      if (location.href !== here) { again = true; return; }
      for (const old of parts()) {
        const from = old.dataset.from || here, page = pages.get(from);
        const fresh = page ? page.getElementById(old.id) : null;
        if (!fresh) continue;
        reveal(fresh);
        if (edited(old)) { waiting.add(from); continue; }
        const active = document.activeElement;
        const focus = old.contains(active) && active.matches(FOCUSED) ? named(active) : null;
        const opened = [...old.querySelectorAll("details[open] > summary")].map(named);
        const scroll = [...old.querySelectorAll(".scroll")].map((one) => [one.scrollLeft, one.scrollTop]);
        merge(old, fresh);
        const now = document.getElementById(old.id);
        for (const one of now.querySelectorAll("details > summary")) if (opened.includes(named(one))) one.parentElement.open = true;
        htmx.process(now);
        document.dispatchEvent(new CustomEvent("ui:fresh"));
        now.querySelectorAll(".scroll").forEach((one, at) => { if (scroll[at]) [one.scrollLeft, one.scrollTop] = scroll[at]; });
        // Enter must not press the button of another row that has taken its place.
        if (focus && (document.activeElement !== active || named(active) !== focus)) {
          active.blur();
          for (const one of now.querySelectorAll(FOCUSED)) if (named(one) === focus) { one.focus(); break; }
        }
      }
      for (const [from, page] of pages) if (page) tags.set(from, waiting.has(from) ? "" : page.body.dataset.tag);
    } catch { /* The stream's sign tells that the connection is lost. */ } finally {
      running = false;
      last = Date.now();
      if (again) { again = false; soon(); }
    }
  };
  const soon = () => {
    if (!pending) pending = setTimeout(refresh, Math.max(QUIET, last + PACE - Date.now()));
  };

  let stream = null, wait = RETRY;
  const open = () => {
    stream = new EventSource(source);
    // The page may be older than the begin of the stream.
    stream.onopen = () => { wait = RETRY; soon(); sign.textContent = "live"; };
    stream.onmessage = soon;
    stream.onerror = () => {
      if (!sign.firstElementChild) sign.textContent = "connection lost";
      if (stream.readyState !== EventSource.CLOSED) return;
      const closed = stream;
      setTimeout(() => { if (stream === closed) { refresh(); open(); } }, wait);
      wait = Math.min(2 * wait, MOST_RETRY);
    };
  };
  // A server has a number of streams: a page that nobody sees takes none.
  const close = () => { if (stream) stream.close(); stream = null; };
  const follow = () => { if (document.hidden) close(); else if (!stream) open(); };
  follow();
  addEventListener("pagehide", close);
  addEventListener("pageshow", follow);
  document.addEventListener("visibilitychange", follow);
  // What changes without an event: approvals, nodes, engines. A page takes at most a thousandth of the server's time.
  const rest = () => setTimeout(() => { if (!document.hidden) soon(); rest(); }, Math.max(calm, 1000 * took));
  rest();
})();
