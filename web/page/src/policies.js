
// ---- The views of the first card: this proxy's keys, those of all proxies, and the policies. Only the one that is
// shown is asked for.

let view = 'keys';
let polling = null;               // aborts what the view asks for
let policies = null;              // the newest answer; null: there is none yet
const policyTrails = new Map();   // the last minutes of each policy that is shown, by name

$('views').addEventListener('click', e => { if (e.target.dataset.view) choose(e.target.dataset.view); });

function choose(name) {
  view = name;
  for (const b of $('views').children) b.ariaPressed = String(b.dataset.view === name);
  [fleet, policies] = [null, null];
  put($('view-note'), '');
  $('keys-empty').replaceChildren('Waiting for an answer.');
  $('keys-empty').hidden = false;
  $('keys').hidden = $('policies').hidden = true;
  if (snapshot) showView();
  polling?.abort();
  if (name !== 'keys') poll(name, polling = new AbortController());
}

// poll asks for a view every two seconds, until another one is chosen.
async function poll(name, { signal }) {
  while (!signal.aborted) {
    if (!document.hidden) await ask(name, signal);
    await new Promise(done => setTimeout(done, 2000));
  }
}

async function ask(name, signal) {
  try {
    const answer = await fetch(api + name, { signal: AbortSignal.any([signal, AbortSignal.timeout(10_000)]) });
    if (!answer.ok) throw new Error(await reason(answer));
    const shown = await answer.json();
    if (!signal.aborted) arrived[name](shown, Date.now());
  } catch (e) {
    if (!signal.aborted) put($('view-note'), e instanceof TypeError ? 'rlproxy does not answer.' : e.name === 'TimeoutError' ? 'There was no answer for 10 s.' : e.message);
  }
}

// arrived keeps the answer about a view, and shows it.
const arrived = {
  fleet(shown) {
    fleet = shown;
    follow(fleetTrails, fleet.keys, snapshot?.time ?? 0);
    put($('view-note'), fleet.proxies > 1 ? `Added up over ${fleet.proxies} proxies.` : 'No other proxy of the same nodes has busy keys.');
    if (snapshot) showView();
  },
  policies(shown, now) {
    policies = shown;
    const names = new Set(shown.policies.map(p => p.name));
    for (const name of policyTrails.keys()) if (!names.has(name)) policyTrails.delete(name);
    for (const { name, decisions, denied, refused, shadow } of shown.policies) policyTrails.set(name, grown(policyTrails.get(name) ?? [], { t: now, decisions, denied, refused, shadow }));
    const more = shown.count - shown.policies.length;
    put($('view-note'), shown.unknown || (more > 0 ? `${plain.format(shown.count)} policies; the ${shown.policies.length} that deny most are shown.` : ''));
    if (snapshot) showView();
  },
};

function showView() {
  $('views').children[2].hidden = !snapshot.policies;
  showKeys();
  if (view === 'policies') showPolicies();
}

function showPolicies() {
  const all = policies?.policies ?? [];
  $('policies').hidden = !all.length;
  $('keys-empty').hidden = all.length > 0;
  if (policies && !all.length) $('keys-empty').replaceChildren('No policy yet. To set one, type', make('br'), make('code', '', `${client()} RL.POLICY SET api SLIDE 100 60`));
  list($('policies').tBodies[0], all, p => p.name, newPolicy, showPolicy);
}

function newPolicy(p) {
  const overrides = make('details', '', make('summary'), make('ul', 'overrides'));
  const name = make('th', 'text', make('bdi', '', p.name), make('span', 'under'), make('span', 'under'), overrides);
  name.scope = 'row';
  return make('tr', '', name, make('td'), newAway(), make('td'));
}

function showPolicy(row, p) {
  const [name, rate, turned, total] = row.children;
  const [, rule, shadow, overrides] = name.children;
  const trail = policyTrails.get(p.name);
  const now = recent(trail);
  put(rule, visible(p.rule) + (p.stored ? '' : ', from the configuration'));
  put(shadow, trail.length > 1 && now.shadow > 0 ? `SHADOW would deny ${joined(perSecond(now.shadow))}` : '');
  put(rate, trail.length > 1 ? count(Math.round(now.all / now.seconds)) : '–');
  showAway(turned, trail.length > 1 ? now : { all: 0 });
  put(total, brief(p.denied + p.refused));
  total.title = `${plain.format(p.denied)} by limit, ${plain.format(p.refused)} because no node answered`;
  overrides.hidden = !p.count;
  put(overrides.firstChild, `${plain.format(p.count)} ${p.count === 1 ? 'override' : 'overrides'}` + (p.count > p.overrides.length ? `, ${p.overrides.length} shown` : ''));
  list(overrides.lastChild, p.overrides, o => o.pattern, newOverride, showOverride);
}

function newOverride(o) {
  const pattern = make('bdi', '', visible(o.pattern));
  pattern.title = pattern.textContent;
  return make('li', '', pattern, make('span', 'soft'), make('span'));
}

function showOverride(item, o) {
  put(item.children[1], visible(o.rule));
  put(item.children[2], o.decisions > 0 ? `${brief(o.decisions)} decisions, ${brief(o.turned_away)} turned away` : 'not asked about yet');
}
