// The frame around every page: the navigation, the user, and the keys that work everywhere.
import { html, render, useEffect, useRef, useState } from "./html.js";
import { api, useApi, whenLoggedOut } from "./api.js";
import { useLive, useStream } from "./live.js";
import { go, href, useRoute } from "./router.js";
import { Dialog } from "./parts/dialog.js";
import { LEVELS, MARKS as SIGNS, Mark } from "./parts/bits.js";
import { NotAllowed, fixed, seesBroker } from "./parts/rights.js";
import { clock, isUtc, localZoneName, setUtc } from "./format.js";
import { Home } from "./pages/home.js";
import { OwnRights } from "./pages/own_rights.js";
import { Topics } from "./pages/topics.js";
import { Topic } from "./pages/topic.js";
import { History } from "./pages/history.js";
import { Groups } from "./pages/groups.js";
import { Group } from "./pages/group.js";
import { Clients } from "./pages/clients.js";
import { Cluster } from "./pages/cluster.js";
import { Exports } from "./pages/exports.js";
import { Export } from "./pages/export.js";
import { Settings } from "./pages/settings.js";
import { Records } from "./pages/log_and_audit.js";
import { Quotas } from "./pages/quotas.js";
import { Access } from "./pages/access.js";
import { Rules } from "./pages/rules.js";
import { Ledger } from "./pages/loss_ledger.js";
import { Alerts } from "./pages/alerts.js";
import { Machine } from "./pages/machine.js";
import { Mirrors } from "./pages/mirrors.js";
import { Login, Setup } from "./pages/login.js";

// `wants`: an operation on the cluster. `isByRole`: rules do not open it. `isOf`: whether a broker
// has it in the menu; its address is always there.
const PAGES = [
  { key: "h", path: "", title: "Home", page: Home },
  { key: "t", path: "topics", title: "Topics", page: Topics, one: Topic },
  { key: "g", path: "groups", title: "Consumers", page: Groups, one: Group },
  { key: "m", path: "mirrors", title: "Mirrors", page: Mirrors, wants: "describe" },
  {
    key: "b",
    path: "cluster",
    title: "Cluster",
    page: Cluster,
    wants: "describe",
    isOf: (health) => health?.zookeeper != null,
  },
  { key: "i", path: "history", title: "History", page: History, wants: "describe" },
  { key: "c", path: "clients", title: "Clients", page: Clients, wants: "describe" },
  { key: "e", path: "exports", title: "Exports", page: Exports, one: Export },
  { key: "d", path: "ledger", title: "Losses and damage", page: Ledger, wants: "describe" },
  {
    key: "o",
    path: "machine",
    title: "Machine",
    page: Machine,
    head: "Appliance",
    wants: "describe",
  },
  { key: "n", path: "alerts", title: "Alerts", page: Alerts, wants: "describe" },
  {
    key: "s",
    path: "settings",
    title: "Settings",
    page: Settings,
    wants: "describe_configs",
  },
  {
    key: "l",
    path: "records",
    title: "Log and audit",
    page: Records,
    wants: "describe",
    isByRole: true,
  },
  { key: "r", path: "rules", title: "Access rules", page: Rules, wants: "describe" },
  { key: "q", path: "quotas", title: "Quotas", page: Quotas, wants: "describe_configs" },
  { key: "u", path: "access", title: "Users and tokens", page: Access },
];

const isOpen = (page, me) =>
  (!page.wants || (me.allowed?.includes(page.wants) ?? true)) &&
  !(page.isByRole && me.role === "none");

const dark = matchMedia("(prefers-color-scheme: dark)");
function paint() {
  const chosen = localStorage.getItem("theme") ?? "auto";
  document.documentElement.dataset.theme =
    chosen === "auto" ? (dark.matches ? "dark" : "light") : chosen;
}
dark.addEventListener("change", paint);
paint();

function Theme() {
  const [chosen, choose] = useState(localStorage.getItem("theme") ?? "auto");
  const change = (event) => {
    localStorage.setItem("theme", event.target.value);
    paint();
    choose(event.target.value);
    dispatchEvent(new Event("theme"));
  };
  return html`
    <label>
      Colours
      <select value=${chosen} onChange=${change}>
        <option value="auto">system</option>
        <option value="light">light</option>
        <option value="dark">dark</option>
      </select>
    </label>
  `;
}

function Zone({ onChange }) {
  const change = (event) => {
    setUtc(event.target.value === "utc");
    onChange();
  };
  return html`
    <label>
      Times
      <select value=${isUtc() ? "utc" : "local"} onChange=${change}>
        <option value="local">${localZoneName()}</option>
        <option value="utc">UTC</option>
      </select>
    </label>
  `;
}

function Help({ onClose }) {
  const rows = [
    ["/", "filter the table"],
    ["j k", "next and previous row"],
    ["Enter", "open the row"],
    ...PAGES.map((page) => [`g ${page.key}`, page.title]),
    ["?", "this help"],
  ];
  return html`
    <${Dialog} title="Keys" onClose=${onClose}>
      <table>
        <tbody>
          ${rows.map(
            ([keys, what]) => html`
              <tr>
                <td>${keys.split(" ").map((key) => html`<kbd>${key}</kbd> `)}</td>
                <td>${what}</td>
              </tr>
            `,
          )}
        </tbody>
      </table>
    <//>
  `;
}

function useKeys(openHelp) {
  const before = useRef("");
  useEffect(() => {
    const pressed = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]"))
        return;
      if (event.target.matches("input, textarea, select")) {
        if (event.key === "Escape") event.target.blur();
        return;
      }
      const page = before.current === "g" && PAGES.find((each) => each.key === event.key);
      before.current = event.key;
      if (page) go([page.path].filter(Boolean));
      else if (event.key === "?") openHelp();
      else if (event.key === "/") {
        event.preventDefault();
        document.querySelector("[data-filter]")?.focus();
      } else if (event.key === "j" || event.key === "k") move(event.key === "j" ? 1 : -1);
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

function move(step) {
  const links = [...document.querySelectorAll("tr[data-row]")]
    .map((row) => row.querySelector("a, button"))
    .filter(Boolean);
  const at = links.indexOf(document.activeElement?.closest("tr")?.querySelector("a, button"));
  links[Math.max(0, Math.min(links.length - 1, at + step))]?.focus();
}

function Side({ route, me, onLogout, onZone }) {
  useStream(seesBroker(me));
  const [open, setOpen] = useState(false);
  const health = useLive((state) => state.health);
  const isCut = useLive((state) => state.isCut);
  useEffect(() => setOpen(false), [route]);
  return html`
    <div class="side" data-open=${open || undefined}>
      <a class="brand" href="#/">
        <img src=${new URL("icon.svg", import.meta.url).pathname} alt="" />
        appliance
      </a>
      <button type="button" class="menu" aria-expanded=${open} onClick=${() => setOpen(!open)}>
        Menu
      </button>
      <nav aria-label="Pages">
        ${PAGES.filter((page) => isOpen(page, me) && (page.isOf?.(health) ?? true)).map(
          (page) => html`
            ${page.head && html`<h3>${page.head}</h3>`}
            <a href=${href([page.path].filter(Boolean))}
                aria-current=${(route.parts[0] ?? "") === page.path ? "page" : undefined}>
              ${page.title}
              ${page.path === "" && isCut && html`<${Mark} level="unknown" />`}
              ${
                page.path === "" &&
                health &&
                health.status !== "ok" &&
                html`<${Mark} level=${LEVELS[health.status]} />`
              }
            </a>
          `,
        )}
      </nav>
      <div class="foot">
        <${Theme} />
        <${Zone} onChange=${onZone} />
        ${
          me.name &&
          html`
            <p class="muted">
              ${me.name} <span class="badge">${me.role}</span>
              ${" "}
              <button type="button" class="plain" onClick=${onLogout}>log out</button>
            </p>
          `
        }
      </div>
    </div>
  `;
}

/** The health of the broker in the title of the tab. */
function useTitle(parts) {
  const mark = useLive(({ isCut, health }) =>
    isCut ? SIGNS.unknown : health && health.status !== "ok" ? SIGNS[LEVELS[health.status]] : "",
  );
  const title = [mark, parts.filter(Boolean).join(" · ")].filter(Boolean).join(" ");
  useEffect(() => {
    document.title = title;
  }, [title]);
}

/** Warnings that stand above every page. */
function Warnings({ me }) {
  const isCut = useLive((state) => state.isCut);
  const since = useLive((state) => state.since);
  return html`
    ${
      isCut &&
      html`
        <p class="notice bad" role="alert">
          <${Mark} level="bad" /> The broker has not answered since ${clock(since)}. It may be
          restarting; this page retries.
        </p>
      `
    }
    ${me.warning && html`<p class="notice bad"><${Mark} level="bad" /> ${me.warning}</p>`}
  `;
}

function App() {
  const route = useRoute();
  const session = useApi("/session");
  const [help, setHelp] = useState(false);
  const [out, setOut] = useState(false);
  const [zone, setZone] = useState(0); // how often it was changed: all times are drawn anew
  const main = useRef();
  useKeys(() => setHelp(true));
  useEffect(() => whenLoggedOut(() => setOut(true)), []);
  const shown = route.parts.slice(0, 2).join("/");
  const page = PAGES.find((each) => each.path === (route.parts[0] ?? ""));
  useTitle([route.parts[1], page?.title, "appliance"]);
  useEffect(() => scrollTo(0, 0), [shown]);
  const me = {
    why_fixed: session.data ? fixed(session.data) : "",
    read_only: session.data ? Boolean(fixed(session.data)) : false,
    ...session.data,
  };
  // The session is loaded first: data of the last user is not shown to the next.
  const again = async () => {
    await session.reload();
    setOut(false);
  };
  if (route.parts[0] === "setup")
    return html`
      <${Setup} secret=${route.parts[1] ?? ""}
          onIn=${() => {
            go([]);
            again();
          }} />
    `;
  if (out || (session.data && !session.data.role))
    return html`
      <${Login} onIn=${again} hasService=${session.data?.has_service}
          warning=${session.data?.warning} />
    `;
  if (!session.data && !session.error) return null;
  const isHome = page?.path === "" && !seesBroker(me);
  const Page = isHome ? OwnRights : route.parts.length > 1 && page?.one ? page.one : page?.page;
  const logout = async () => {
    await api("/logout", { method: "POST", body: {} });
    setOut(true);
  };
  return html`
    <a class="skip" href="#main"
        onClick=${(event) => {
          event.preventDefault();
          main.current.focus();
        }}>
      Skip to content
    </a>
    <div class="shell">
      <${Side} route=${route} me=${me} onLogout=${logout}
          onZone=${() => setZone(zone + 1)} />
      <main id="main" ref=${main} tabindex="-1">
        <${Warnings} me=${me} />
        ${
          !Page
            ? html`<h1>Page not found</h1>`
            : isOpen(page, me)
              ? html`<${Page} key=${`${zone} ${shown}`} route=${route} me=${me} />`
              : html`<${NotAllowed} me=${me} title=${page.title} wanted=${page.wants} />`
        }
      </main>
    </div>
    ${help && html`<${Help} onClose=${() => setHelp(false)} />`}
  `;
}

render(html`<${App} />`, document.getElementById("app"));
