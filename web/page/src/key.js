// ---- One key: the part of the address after # has its id.

let chosen = '';      // its id; empty: none
let asking = null;    // aborts the requests about it
const detail = $('detail');

function route() {
  const id = /^#key=([A-Za-z0-9_-]+)$/.exec(location.hash)?.[1] ?? '';
  if (id === chosen) return;
  asking?.abort();
  chosen = id;
  if (!id) return detail.close();
  let name = '';
  try { name = decode(id); } catch { /* not the id of a key: the server's error will be shown */ }
  $('detail-key').replaceChildren(make('bdi', '', visible(name)));
  forgetKey();
  for (const e of ['ask', 'reset']) $(e).hidden = true;
  say($('done'), '');
  say($('said'), 'Asking the node that has the key …');
  if (!detail.open) detail.showModal();
  detail.scrollTop = 0;
  inspect();
}

// forgetKey shows nothing of the key, until there is an answer about it.
function forgetKey() {
  for (const e of ['states', 'facts', 'past']) $(e).replaceChildren();
  say($('verdict'), '');
}

function say(e, text, trouble) {
  put(e, text);
  e.className = text ? trouble ? 'said trouble' : 'said' : '';
}

// inspect requests the state of the chosen key, and again two seconds after each answer.
async function inspect() {
  const id = chosen;
  asking?.abort();
  const { signal } = asking = new AbortController();
  while (id === chosen && !signal.aborted) {
    if (!document.hidden) {
      try {
        const answer = await fetch(api + 'key?id=' + id, { signal: AbortSignal.any([signal, AbortSignal.timeout(10_000)]) });
        if (!answer.ok) throw new Error(await reason(answer));
        const key = await answer.json();
        if (!signal.aborted) showStates(key);
      } catch (e) {
        if (signal.aborted) return;
        forgetKey();
        say($('said'), e instanceof TypeError ? 'rlproxy does not answer.' : e.name === 'TimeoutError' ? 'There was no answer for 10 s.' : e.message, true);
      }
      showReset();
    }
    await new Promise(done => setTimeout(done, 2000));
  }
}

function showStates(key) {
  put($('detail-key').firstChild, visible(key.key));
  say($('said'), key.states.length ? '' : 'Nothing is counted for this key now.');
  const [text, trouble] = verdict(key);
  say($('verdict'), text, trouble);
  showFacts($('facts'), facts(key));
  showPast(key.trail);
  list($('states'), key.states, s => JSON.stringify([s.command, s.window_ms, s.calendar, s.parameter, s.shadow]), newState, showState);
}

// verdict says whether the next request would be admitted and, if not, what would let it in.
function verdict({ policy, denial, states }) {
  const override = `the override ${policy?.pattern && visible(policy.pattern)} of policy ${policy?.name}`;
  if (policy?.override === 'BLOCKED') return [`Every request is turned away, because ${override} blocks this key. To let it in, change the override.`, true];
  if (policy?.override === 'UNLIMITED') return [`Every request is let in, because ${override} is UNLIMITED.`, false];
  const full = states.filter(s => !s.shadow && s.remaining <= 0);
  if (full.length) return [full.map(s => `${limitOf(s)} is reached. ${opening(s, denial)}`).join(' '), true];
  if (denial?.fail && snapshot && snapshot.time - denial.time < 60_000) return [unanswered(denial)
    ? `Its last requests were turned away because ${visible(denial.node)} did not answer. It is let in when that node is up.`
    : `Its limit is reached by what this proxy has counted, because ${visible(denial.node)} did not answer.`, true];
  const left = Math.min(...states.filter(s => !s.shadow).map(s => s.remaining));
  return [left < Infinity ? `The next request is let in: there is room for ${plain.format(left)} more.` : '', false];
}

// opening says what makes room in a limit that is reached.
function opening(s, denial) {
  const wait = denial && !denial.fail && snapshot ? denial.time + denial.retry_after_ms - snapshot.time : 0;
  const ways = [];
  if (s.window_ms) ways.push(wait > 0 ? `in ${span(wait)} for a request like the last one` : `as units leave the window, which is empty in ${span(s.ttl_ms)}`);
  if (s.holds) ways.push(`when one of ${plain.format(s.holds)} ${holdersOf(s)} ends`);
  const lent = (s.advances ?? []).reduce((sum, a) => sum + a.units, 0);
  if (lent) ways.push(`from the ${plain.format(lent)} units that are advanced to proxies`);
  return `There is room again ${ways.join(', or ')}.`;
}

const holdersOf = s => s.command === 'rl.acquire' ? 'leases' : 'reservations';
const windowOf = s => s.calendar || span(s.window_ms);
const limitOf = s => `The limit of ${plain.format(s.limit)} ${s.window_ms ? `per ${windowOf(s)}` : 'slots'}`;

// facts returns the rows about the key as a whole.
function facts({ policy, denial, trail, node, shards }) {
  const rows = [];
  if (policy) rows.push(['Policy', `${policy.name}: ${visible(policy.rule)}`]);
  if (policy?.pattern) rows.push(['Override', `${visible(policy.pattern)}: ${visible(policy.override)}`]);
  if (denial) {
    rows.push(['Last turned away', `${clock(denial.time)}, ${cause(denial)}`]);
    if (denial.client) rows.push(['By client', visible(denial.client)]);
  }
  const seen = snapshot?.keys.find(k => k.id === chosen) ?? trail.at(-1);
  if (seen) rows.push(['Let in so far', plain.format(seen.admitted)], ['Denied so far', plain.format(seen.denied)], ['No node answered', plain.format(seen.fail)]);
  rows.push(['Node', visible(node)], ['Shards', plain.format(shards)]);
  return rows;
}

// showFacts shows rows of a name and a value in a dl.
function showFacts(dl, rows) {
  if (dl.children.length !== 2 * rows.length) dl.replaceChildren(...rows.flatMap(() => [make('dt'), make('dd')]));
  rows.forEach(([name, value], i) => {
    put(dl.children[2 * i], name);
    put(dl.children[2 * i + 1], value);
  });
}

// showPast shows what the server knows of the key's last minutes: what was used of the limit, and what was turned away.
function showPast(trail) {
  const past = $('past');
  past.hidden = trail.length < 2;
  if (past.hidden) return;
  if (!past.firstChild) past.append(newPast('Used'), newPast('Turned away', 'denied'));
  const used = trail.map(p => ({ t: p.t, v: p.remaining < 0 || !p.limit ? null : p.limit - p.remaining, most: p.limit }));
  const turned = trail.slice(1).map((p, i) => ({ t: p.t, v: Math.max(0, p.denied + p.refused - trail[i].denied - trail[i].refused) / (p.t - trail[i].t) * 1000 }));
  showPastLine(past.children[0], used, Math.max(1, ...used.map(p => p.most)), v => `${plain.format(v)} of ${plain.format(used.at(-1).most)}`);
  showPastLine(past.children[1], turned, Math.max(1, ...turned.map(p => p.v)), v => joined(perSecond(v)));
}

function newPast(title, tone) {
  const svg = drawing('svg', { viewBox: '0 0 300 100', preserveAspectRatio: 'none', 'aria-hidden': 'true' }, drawing('path', { class: 'area' }), drawing('path', { class: tone ?? '' }));
  return make('div', '', make('h3', '', title + ', last 5 min'), make('p', 'soft'), make('div', 'chart', svg));
}

function showPastLine(e, values, most, text) {
  const of = p => p.v;
  const all = runs(values, of, 2 * MOMENT);
  const end = values.at(-1).t;
  const [x, y] = [t => (t - end + KEPT) / KEPT * 300, v => 94 - v / most * 90];
  const [area, drawn] = e.querySelector('svg').children;
  area.setAttribute('d', band(all, of, x, y, 100));
  drawn.setAttribute('d', line(all, of, x, y));
  const newest = values.at(-1).v;
  put(e.children[1], newest == null ? 'not known' : text(newest));
}

function newState(s) {
  const {buckets, ...other} = s.parameter;
  const parameter = Object.entries(other).map(([name, n]) => `, ${name} ${plain.format(n)}`).join('') || (buckets > 1 ? `, ${buckets} sub-windows` : '');
  const table = make('table', '', make('thead', '', make('tr', '')), make('tbody', ''));
  for (const [i, title] of ['Shard', 'Node', 'May admit', 'Used', 'For'].entries()) {
    const th = make('th', i < 2 ? 'text' : '', title);
    th.scope = 'col';
    table.tHead.firstChild.append(th);
  }
  return make('section', 'state', make('h3', '', `${named(s.command)}${s.window_ms ? `, ${windowOf(s)}` : ''}${parameter}${s.shadow ? ', SHADOW' : ''}`), make('div', 'now'), newBar(), make('dl', ''), table);
}

function showState(section, s) {
  const [, now, bar, facts, table] = section.children;
  const slots = s.command === 'rl.acquire'; // slots are held, not charged
  putFigure(now, slots ? [plain.format(s.held), `of ${plain.format(s.limit)} slots held`] : [plain.format(s.used), `of ${plain.format(s.limit)} used`]);
  const full = s.remaining <= 0;
  now.className = full ? 'now denied' : 'now';
  bar.className = full ? 'bar denied' : 'bar';
  fill(bar, (s.used + s.held) / s.limit);
  showFacts(facts, stateFacts(s, slots));
  showShards(table, s.shards ?? []);
}

function stateFacts(s, slots) {
  const rows = [['Remaining', plain.format(Math.max(0, s.remaining))], ['Forgotten in', span(s.ttl_ms)], ['Node', visible(s.node)]];
  if (!slots) rows.splice(1, 0, ['Charged by', `${count(s.rate)}\u00a0calls a second`]);
  if (s.holds || s.lapsed) {
    rows.push(['Held', `${plain.format(s.held)} by ${plain.format(s.holds)} ${holdersOf(s)}`]);
    rows.push(['Lapsed', plain.format(s.lapsed)]);
  }
  for (const a of s.advances ?? []) rows.push(['Advanced', `${plain.format(a.units)} to ${visible(a.proxy)}, ${span(a.lapses_ms)} left`]);
  return rows;
}

function showShards(table, shards) {
  table.hidden = !shards.length;
  list(table.tBodies[0], shards, h => `${h.shard} ${h.node}`, () => make('tr', '', make('td', 'text'), make('td', 'text soft'), make('td'), make('td'), make('td')), (row, h) => {
    [String(h.shard), visible(h.node), plain.format(h.held), plain.format(h.used), h.lease_ms > 0 ? span(h.lease_ms) : '–'].forEach((text, i) => put(row.children[i], text));
    row.children[1].title = visible(h.node);
  });
}

// showReset shows the reset button if the user may reset keys.
function showReset() {
  const may = !!snapshot?.admin;
  if (!may) $('ask').hidden = true;
  $('reset').hidden = !may || !$('ask').hidden;
}

function showConfirmation(open) {
  $('ask').hidden = !open;
  showReset();
  (open ? $('keep') : $('reset')).focus();
}

$('reset').addEventListener('click', () => {
  say($('done'), '');
  showConfirmation(true);
});
$('keep').addEventListener('click', () => showConfirmation(false));
$('forget').addEventListener('click', async () => {
  const id = chosen;
  const { signal } = asking;
  $('forget').disabled = true;
  let text, trouble = false;
  try {
    const answer = await fetch(api + 'reset', {
      method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ id }),
      signal: AbortSignal.any([signal, AbortSignal.timeout(10_000)]),
    });
    if (!answer.ok) throw new Error(await reason(answer));
    text = (await answer.json()).reset ? 'The key is reset.' : 'There was nothing to reset.';
  } catch (e) {
    trouble = true;
    text = 'The key may not have been reset: ' + (e instanceof TypeError ? 'rlproxy does not answer.' : e.name === 'TimeoutError' ? 'there was no answer for 10 s.' : e.message);
  }
  $('forget').disabled = false;
  if (id !== chosen) return;
  showConfirmation(false);
  say($('done'), text, trouble);
  inspect();
});

function leave() {
  history.replaceState(null, '', location.pathname + location.search);
  route();
}

$('close').addEventListener('click', leave);
detail.addEventListener('click', e => { if (e.clientX > 0 && e.clientX < detail.getBoundingClientRect().left) leave(); });
detail.addEventListener('cancel', e => {
  e.preventDefault();
  if ($('ask').hidden) leave();
  else showConfirmation(false); // Escape first closes the confirmation
});
detail.addEventListener('close', () => { if (chosen && !detail.open) leave(); }); // the browser closed it anyway
addEventListener('hashchange', route);
