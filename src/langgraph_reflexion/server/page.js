// Lessons and runs in a browser. Every text is set as text, never as markup: a lesson may contain anything.
"use strict";

const $ = (id) => document.getElementById(id);
const token = new URLSearchParams(location.search).get("token");
const user = new URLSearchParams(location.search).get("user"); // only where the server authenticates nobody
const AT_ONCE = 1000; // what the routes give at most
const LAST = 20; // runs behind each point of the plot
const GROUPS = [
  ["Waiting for a decision", ["quarantined"]],
  ["New, not yet proven", ["candidate"]],
  ["In use", ["active", "probation"]],
  ["No longer shown", ["superseded", "retired"]],
];
const TONE = { active: "good", quarantined: "wait", probation: "wait", retired: "bad", success: "good", failure: "bad" };
const ORIGINS = {
  verified: "verified: what had failed succeeded after this advice",
  told: "told: a person said so",
  judged: "judged: a model's verdict",
  observed: "observed: not tried in the run that wrote it, or it has words of a tool or page",
};
let lessons = [];
let runs = [];

// ---------------------------------------------------------------- asking the server

async function ask(path, method = "GET", body = undefined) {
  const headers = { Accept: "application/json" };
  if (token) headers.Authorization = `Bearer ${token}`;
  if (method !== "GET") headers["Content-Type"] = "application/json";
  const whose = user ? `${path.includes("?") ? "&" : "?"}user=${encodeURIComponent(user)}` : "";
  const answer = await fetch(path + whose, { method, headers, body: body && JSON.stringify(body) }).catch(() => {
    throw new Error("The server does not answer. Is it still running?");
  });
  if (answer.status === 204) return null;
  const data = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(data.detail || `${answer.status} ${answer.statusText}`);
  return data;
}

const lessonPath = (id, what = "") => `lessons/${encodeURIComponent(id)}${what}`;

async function load() {
  const found = [];
  let page;
  do {
    page = await ask(`lessons?limit=${AT_ONCE}&offset=${found.length}`);
    found.push(...page);
  } while (page.length === AT_ONCE);
  runs = await ask(`runs?limit=${AT_ONCE}`);
  lessons = found.reverse();
}

/** Do something, and show its error. */
async function attempt(work) {
  try {
    $("error").hidden = true;
    return await work();
  } catch (fault) {
    $("error").textContent = fault.message;
    $("error").hidden = false;
    return undefined;
  }
}

// ---------------------------------------------------------------- making elements

function el(name, props = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(props)) {
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

function drawn(name, props = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(props)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** Replace the elements in a place. If the focus was in it, it moves to the same link, else to the place. */
function refill(place, ...children) {
  const focused = place.contains(document.activeElement) ? document.activeElement : null;
  place.replaceChildren(...children);
  if (focused === null) return;
  const same = focused.hash && [...place.querySelectorAll("a")].find((link) => link.hash === focused.hash);
  (same || place).focus({ preventScroll: true });
}

const badge = (text, tone = "") => el("span", { class: `badge ${tone || TONE[text] || ""}` }, text);
const short = (id) => id.slice(0, 8);
const button = (text, onclick, kind = "") => el("button", { type: "button", class: kind, onclick }, text);
const quote = (text) => el("div", { class: "quote", tabindex: "0" }, text);
const share = (won, lost) => (won + lost ? `${won} of ${won + lost}` : "");
/** A difference between two shares, in percentage points. */
const points = (value) => `${value > 0 ? "+" : ""}${Math.round(value * 100)}`;

function when(text) {
  if (!text) return "";
  const time = new Date(text);
  const days = Math.floor((new Date().setHours(0, 0, 0, 0) - new Date(time).setHours(0, 0, 0, 0)) / 864e5);
  const clock = time.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const label = days === 0 ? `today ${clock}` : days === 1 ? `yesterday ${clock}` : time.toLocaleDateString([], { dateStyle: "medium" });
  return el("time", { datetime: text, title: time.toLocaleString() }, label);
}

function fields(values) {
  const filled = Object.entries(values).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return el("dl", {}, filled.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

// ---------------------------------------------------------------- the record of a lesson

const proven = ({ low, high }) => (low > 0 ? "good" : high < 0 ? "bad" : "");

function inWords(uplift) {
  if (uplift === "unproven") return "not compared yet";
  const verdict = { good: "proven to help", bad: "does harm", "": "no clear difference yet" }[proven(uplift)];
  return `${verdict}: ${points(uplift.mean)} points in runs won (90 % interval ${points(uplift.low)} to ${points(uplift.high)})`;
}

/** What a lesson adds, from -80 points at the left to +80 at the right, with its interval. */
function bar(uplift) {
  if (uplift === "unproven") return el("span", { class: "soft small" }, "not compared yet");
  const at = (value) => 50 + 60 * Math.max(-0.8, Math.min(0.8, value));
  const span = { x: at(uplift.low), width: Math.max(1, at(uplift.high) - at(uplift.low)), y: 4, height: 6, rx: 2 };
  const picture = drawn(
    "svg",
    { class: `bar ${proven(uplift)}`, viewBox: "0 0 100 14", role: "img", "aria-label": inWords(uplift) },
    drawn("title", {}, inWords(uplift)),
    drawn("line", { class: "axis", x1: 2, x2: 98, y1: 7, y2: 7 }),
    drawn("line", { class: "axis", x1: 50, x2: 50, y1: 0, y2: 14 }),
    drawn("rect", { class: "span", ...span }),
    drawn("circle", { class: "dot", cx: at(uplift.mean), cy: 7, r: 3 }),
  );
  return el("span", { class: "adds" }, picture, el("span", { class: "small" }, `${points(uplift.mean)} points`));
}

// ---------------------------------------------------------------- the numbers

const number = (value, name) => el("div", { class: "number" }, el("b", {}, String(value)), el("span", { class: "soft small" }, name));

function showNumbers() {
  const count = (...words) => lessons.filter((lesson) => words.includes(lesson.status)).length;
  const helping = lessons.filter((lesson) => lesson.uplift !== "unproven" && lesson.uplift.low > 0).length;
  $("numbers").replaceChildren(
    number(count("quarantined"), "waiting"),
    number(count("candidate"), "new"),
    number(count("active", "probation"), "in use"),
    number(helping, "proven to help"),
    number(runs.length + (runs.length === AT_ONCE ? "+" : ""), "runs"),
    plot() || "",
  );
}

/** The share of runs won over time, as a line, above a mark for each run. */
function plot() {
  const counted = [...runs].reverse().filter((run) => run.success !== null);
  if (counted.length < 2) return null;
  const at = (i) => (i / (counted.length - 1)) * 300;
  const shares = counted.map((_, i) => {
    const last = counted.slice(Math.max(0, i + 1 - LAST), i + 1);
    return last.filter((run) => run.success).length / last.length;
  });
  const wide = Math.min(4, 240 / counted.length);
  const now = Math.round(shares.at(-1) * 100);
  const words = `Runs won, of the last ${Math.min(LAST, counted.length)}: ${now} % now`;
  return el(
    "figure",
    { class: "number plot" },
    el("figcaption", { class: "soft small" }, words),
    drawn(
      "svg",
      { viewBox: "0 0 300 56", preserveAspectRatio: "none", role: "img", "aria-label": words },
      drawn("line", { class: "axis", x1: 0, x2: 300, y1: 3, y2: 3 }),
      drawn("line", { class: "axis", x1: 0, x2: 300, y1: 43, y2: 43 }),
      ...counted.map((run, i) =>
        drawn("rect", { class: run.success ? "won" : "lost", x: (at(i) * (300 - wide)) / 300, y: 48, width: wide, height: 8 }),
      ),
      drawn("polyline", { class: "line", points: shares.map((value, i) => `${at(i)},${43 - 40 * value}`).join(" ") }),
    ),
  );
}

// ---------------------------------------------------------------- the lists

/** Whether each word of the search is in one of the texts, or begins the id. */
function holdsWords(id, ...texts) {
  const text = texts.join(" ").toLowerCase();
  const words = $("words").value.toLowerCase().split(/\s+/).filter(Boolean);
  return words.every((word) => text.includes(word) || id.startsWith(word));
}

function chosen() {
  return lessons.filter((lesson) => {
    const fits = ["status", "kind", "origin"].every((name) => !$(name).value || lesson[name] === $(name).value);
    return fits && holdsWords(lesson.id, lesson.text, lesson.when, lesson.why, lesson.topic, lesson.name, ...lesson.tags);
  });
}

function fillFilters() {
  for (const name of ["status", "kind", "origin"]) {
    const before = $(name).value;
    const words = [...new Set(lessons.map((lesson) => lesson[name]))].sort();
    $(name).replaceChildren(new Option("all", ""), ...words.map((word) => new Option(word, word)));
    $(name).value = words.includes(before) ? before : "";
  }
}

function showLessons(open) {
  const found = chosen();
  const groups = GROUPS.map(([title, words]) => [title, found.filter((lesson) => words.includes(lesson.status))]);
  const head = ["Lesson", "Status", "Won with", "Without", "Adds", "Last used", ""];
  const columns = head.map((name, i) => el("th", { scope: "col", class: ["", "", "", "", "", "late", "decide"][i] }, name));
  const bodies = groups
    .filter(([, some]) => some.length)
    .map(([title, some]) =>
      el(
        "tbody",
        {},
        el("tr", { class: "group" }, el("th", { colspan: head.length, scope: "rowgroup" }, `${title} (${some.length})`)),
        some.map((lesson) => lessonRow(lesson, lesson.id === open)),
      ),
    );
  const empty = lessons.length ? "No lesson fits this search." : "No lessons yet: they appear after a run that failed.";
  refill(
    $("list"),
    found.length ? el("table", { class: "list" }, el("thead", {}, el("tr", {}, columns)), bodies) : el("p", { class: "soft" }, empty),
  );
}

function lessonRow(lesson, open) {
  const cell = (label, value, kind = "") => el("td", { "data-label": label, class: `${kind}${value ? "" : " none"}` }, value || "");
  const link = el("a", { href: `#lesson/${encodeURIComponent(lesson.id)}` }, lesson.text);
  const about = [lesson.kind, lesson.when && `when: ${lesson.when}`].filter(Boolean).join(" · ");
  return el(
    "tr",
    open ? { class: "open" } : {},
    el("td", { class: "what" }, link, el("div", { class: "soft small" }, about)),
    cell("Status", badge(lesson.status)),
    cell("Won with", share(lesson.wins, lesson.losses), "nowrap"),
    cell("Without", share(lesson.withheld_wins, lesson.withheld_losses), "nowrap"),
    cell("Adds", bar(lesson.uplift)),
    cell("Last used", when(lesson.last_used_at), "late nowrap"),
    el("td", { class: "decide" }, ["quarantined", "candidate"].includes(lesson.status) ? decisions(lesson, { few: true }) : ""),
  );
}

const ending = (run) => (run.status === "unverified" && run.success !== null ? (run.success ? "success" : "failure") : run.status);
const written = (run) => lessons.filter((lesson) => run.written.includes(lesson.id) || lesson.sources.includes(run.id));

function showRuns(open) {
  const head = ["Task", "Ended", "When", "Shown", "Broke on", "Taught"];
  const found = runs.filter((run) => holdsWords(run.id, run.task, ...run.failures.map((failure) => failure.signal)));
  const rows = found.map((run) => {
    const cell = (label, value, kind = "") => el("td", { "data-label": label, class: `${kind}${value ? "" : " none"}` }, value || "");
    return el(
      "tr",
      run.id === open ? { class: "open" } : {},
      el("td", { class: "what" }, el("a", { href: `#run/${encodeURIComponent(run.id)}` }, run.task), el("div", { class: "soft small" }, short(run.id))),
      cell("Ended", badge(ending(run))),
      cell("When", when(run.created_at), "nowrap"),
      cell("Shown", run.shown.length ? String(run.shown.length) : ""),
      cell("Broke on", [...new Set(run.failures.map((failure) => failure.signal))].join(", ")),
      cell("Taught", written(run).length ? String(written(run).length) : ""),
    );
  });
  const columns = head.map((name) => el("th", { scope: "col" }, name));
  refill(
    $("list"),
    rows.length
      ? el("table", { class: "list" }, el("thead", {}, el("tr", {}, columns)), el("tbody", {}, rows))
      : el("p", { class: "soft" }, runs.length ? "No run fits this search." : "No runs are recorded yet."),
  );
}

// ---------------------------------------------------------------- a lesson

async function showLesson(id, isLatest) {
  const [lesson, changes] = await Promise.all([ask(lessonPath(id)), ask(lessonPath(id, "/history"))]);
  const sources = (await Promise.all(lesson.sources.slice(0, 3).map((run) => ask(`runs/${encodeURIComponent(run)}`).catch(() => null)))).filter(Boolean);
  if (!isLatest()) return;
  const undone = new Set(changes.map((change) => change.undoes).filter(Boolean));
  const approved = lesson.status === "active" && changes.some((change) => change.action === "approved" && !undone.has(change.id));
  const waits = lesson.status === "candidate" ? "An agent with `approve=True` waits for your approval." : "";
  const approval = approved ? "A person approved these words." : waits;
  openDetail(
    lesson.text,
    [badge(lesson.status), " ", badge(lesson.kind)],
    lesson.hidden
      ? el("p", { class: "verdict wait" }, `Not shown: ${lesson.hidden}.`)
      : el("p", { class: "verdict good" }, `Shown to the runs that it fits: ${lesson.shown} so far. ${approval}`),
    decisions(lesson, { approved }),
    el("h3", {}, "Record"),
    fields({
      "Won with it": share(lesson.wins, lesson.losses),
      "Won without": share(lesson.withheld_wins, lesson.withheld_losses),
      Adds: lesson.uplift === "unproven" ? inWords(lesson.uplift) : [bar(lesson.uplift), el("div", { class: "small" }, inWords(lesson.uplift))],
      "Last used": when(lesson.last_used_at),
    }),
    el("h3", {}, "Where it came from"),
    sources.length ? sources.map(sourceCard) : el("p", { class: "soft" }, "No run that taught it is recorded."),
    el("h3", {}, "About it"),
    fields({
      When: lesson.when,
      "When not": lesson.when_not,
      Why: lesson.why,
      Origin: ORIGINS[lesson.origin],
      Topic: lesson.topic,
      Tags: lesson.tags.join(", "),
      "Bound to": lesson.trigger && [lesson.trigger.signal, lesson.trigger.tool].filter(Boolean).join(" of "),
      Confidence: lesson.confidence,
      Supersedes: lesson.supersedes.length ? lesson.supersedes.map((other) => [lessonLink(other), " "]) : "",
      Expires: when(lesson.expires_at),
      Id: el("code", {}, lesson.id),
    }),
    el("h3", {}, "History"),
    el("ul", { class: "events" }, changes.map((change) => changeLine(change, undone)).reverse()),
  );
}

function lessonLink(id) {
  const known = lessons.find((lesson) => lesson.id === id);
  return el("a", { href: `#lesson/${encodeURIComponent(id)}` }, known ? known.text : short(id));
}

function sourceCard(run) {
  const plan = run.reflections.map((reflection) => reflection.explanation || reflection.plan).filter(Boolean);
  return el(
    "div",
    { class: "card" },
    el("div", {}, el("a", { href: `#run/${encodeURIComponent(run.run)}` }, run.task), " ", badge(run.status)),
    run.failures.slice(0, 2).map((failure) => [el("div", { class: "soft small" }, `Broke on: ${failure.signal}`), quote(failure.evidence)]),
    plan.slice(0, 2).map((text) => [el("div", { class: "soft small" }, "Reflection"), quote(text)]),
  );
}

function changeLine(change, undone) {
  const may = change.action !== "undone" && !undone.has(change.id) && change.action !== "added";
  const what = [change.action, change.why].filter(Boolean).join(": ");
  const by = change.by === "person" ? "a person" : change.by;
  return el(
    "li",
    {},
    el("div", {}, what, el("div", { class: "soft small" }, when(change.at), ` by ${by}`, undone.has(change.id) ? ", undone since" : "")),
    may ? button("Undo", () => undo(change.id)) : "",
  );
}

// ---------------------------------------------------------------- a run

async function showRun(id, isLatest) {
  const run = await ask(`runs/${encodeURIComponent(id)}`);
  if (!isLatest()) return;
  const card = (entry, note) => el("div", { class: "card" }, entry.text === null ? `${short(entry.lesson)}, forgotten since` : lessonLink(entry.lesson), note);
  const soft = (...parts) => el("div", { class: "soft small" }, parts.filter(Boolean).join("; "));
  const section = (title, some) => (some.length ? [el("h3", {}, title), some] : []);
  openDetail(
    run.task,
    [badge(run.status), " ", el("span", { class: "soft" }, run.stop_reason)],
    fields({
      When: when(run.created_at),
      Took: run.seconds ? `${run.seconds.toFixed(1)} s` : "",
      Score: run.score,
      Id: el("code", {}, run.run),
    }),
    section("Broke on", run.failures.map((failure) => [el("div", { class: "small" }, `${failure.signal} at step ${failure.step}`), quote(failure.evidence)])),
    section(
      "Reflections",
      run.reflections.map((reflection) => el("div", { class: "card" }, reflection.explanation || reflection.root_cause, soft(reflection.plan && `Plan: ${reflection.plan}`))),
    ),
    section("Shown", run.shown.map((entry) => card(entry, entry.text === null ? "" : soft(entry.why, entry.result || "not counted")))),
    section("Withheld", run.withheld.map((entry) => card(entry, entry.text === null ? "" : soft(entry.without, entry.result || "not counted")))),
    section("Taught", run.written.map((id) => el("div", { class: "card" }, lessonLink(id)))),
    run.changes.length || run.shown.length
      ? el("p", { class: "buttons" }, button("Undo all that this run changed", () => undo(run.run), "danger"))
      : "",
  );
}

// ---------------------------------------------------------------- deciding

/** The buttons that a lesson's status allows; in a list only the two that matter there. */
function decisions(lesson, { few = false, approved = false } = {}) {
  const aside = ["quarantined", "retired", "superseded"].includes(lesson.status);
  const buttons = [
    lesson.status === "retired" || approved ? "" : button("Approve", () => decide(lesson.id, "approve", "Approved"), few ? "" : "main"),
    lesson.status === "retired" ? "" : button("Retire", () => decide(lesson.id, "retire", "Retired", { why: "retired on the page" })),
    few || !aside ? "" : button("Restore", () => decide(lesson.id, "restore", "Restored")),
    few ? "" : button("Forget…", () => forget(lesson), "danger"),
  ];
  return el("div", { class: "buttons" }, buttons);
}

async function decide(id, what, done, body = {}) {
  await attempt(async () => {
    await ask(lessonPath(id, `/${what}`), "POST", body);
    const change = (await ask(lessonPath(id, "/history"))).at(-1);
    toast(`${done}.`, () => undo(change.id));
    await refresh();
  });
}

async function undo(what) {
  await attempt(async () => {
    const taken = await ask("undo", "POST", { what });
    toast(taken.length ? "Undone." : "There was nothing left to undo.");
    await refresh();
  });
}

function forget(lesson) {
  const dialog = $("sure");
  $("forgotten").textContent = lesson.text;
  dialog.returnValue = "no";
  dialog.onclose = () =>
    dialog.returnValue === "yes" &&
    attempt(async () => {
      await ask(lessonPath(lesson.id), "DELETE");
      toast("Forgotten.");
      location.hash = "#lessons";
      await refresh();
    });
  dialog.showModal();
}

let hiding;
function toast(text, back = null) {
  clearTimeout(hiding);
  const hide = () => ($("toast").hidden = true);
  $("toast").replaceChildren(el("span", {}, text), ...(back ? [button("Undo", () => (hide(), back()))] : []));
  $("toast").hidden = false;
  hiding = setTimeout(hide, 15000);
}

// ---------------------------------------------------------------- views

let view = "lessons";
let cameFrom = null;
let movesFocus = false; // to what is opened next
let shown = 0;

function openDetail(title, badges, ...parts) {
  const close = el("a", { href: `#${view}`, "aria-label": "Close" }, "✕ Close");
  refill(
    $("detail"),
    el("div", { class: "top" }, el("div", {}, badges), close),
    el("h2", { id: "title" }, title),
    ...parts.flat(Infinity).filter(Boolean),
  );
  $("detail").setAttribute("aria-labelledby", "title");
  $("detail").hidden = false;
  document.body.classList.add("detail");
  if (!movesFocus) return;
  movesFocus = false;
  $("detail").focus({ preventScroll: true });
  $("detail").scrollTop = 0;
  if (getComputedStyle($("main")).display === "none") scrollTo(0, 0);
}

function closeDetail() {
  $("detail").hidden = true;
  movesFocus = false;
  document.body.classList.remove("detail");
}

function showList() {
  const open = decodeURIComponent(location.hash.split("/")[1] || "");
  (view === "lessons" ? showLessons : showRuns)(open);
}

/** Show what the address names: #lessons, #runs, #lesson/ID or #run/ID. What it named before is no longer opened. */
async function show(byUser) {
  const number = ++shown;
  const isLatest = () => number === shown;
  movesFocus ||= byUser;
  const [name, id] = location.hash.slice(1).split("/", 2).map(decodeURIComponent);
  if (name === "runs" || name === "run") view = "runs";
  else view = "lessons";
  document.body.classList.toggle("runs", view === "runs");
  for (const tab of ["lessons", "runs"]) {
    if (view === tab) $(`to-${tab}`).setAttribute("aria-current", "page");
    else $(`to-${tab}`).removeAttribute("aria-current");
  }
  showList();
  if (!id) closeDetail();
  await attempt(async () => {
    if (name === "lesson" && id) await showLesson(id, isLatest);
    if (name === "run" && id) await showRun(id, isLatest);
  });
  if (byUser && !id && cameFrom) [...document.querySelectorAll(".what a")].find((link) => link.hash === cameFrom)?.focus();
  if (byUser) cameFrom = id ? location.hash : null;
}

async function refresh() {
  await load();
  fillFilters();
  showNumbers();
  await show(false);
}

addEventListener("hashchange", () => show(true));
$("reload").addEventListener("click", () => attempt(refresh));
$("filters").addEventListener("submit", (event) => event.preventDefault());
$("filters").addEventListener("input", showList);
addEventListener("keydown", (event) => {
  const typing = event.target.matches("input, select, textarea") || $("sure").open;
  if (event.key === "/" && !typing) {
    event.preventDefault();
    $("words").focus();
  } else if (event.key === "Escape" && !$("sure").open && !$("detail").hidden) location.hash = `#${view}`;
});
$("agent").textContent = decodeURIComponent(location.pathname.split("/").at(-2)) + (user ? ` for ${user}` : "");
document.title = `Lessons of ${$("agent").textContent}`;
attempt(refresh);
