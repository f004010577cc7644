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
  $('states').replaceChildren();
  for (const e of ['ask', 'reset']) $(e).hidden = true;
  say($('done'), '');
  say($('said'), 'Asking the node that has the key …');
  if (!detail.open) detail.showModal();
  detail.scrollTop = 0;
  inspect();
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
        $('states').replaceChildren();
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
  list($('states'), key.states, s => JSON.stringify([s.command, s.window_ms, s.parameter, s.shadow]), newState, showState);
}

function newState(s) {
  const {buckets, ...other} = s.parameter;
  const parameter = Object.entries(other).map(([name, n]) => `, ${name} ${plain.format(n)}`).join('') || (buckets > 1 ? `, ${buckets} sub-windows` : '');
  const table = make('table', '', make('thead', '', make('tr', '')), make('tbody', ''));
  for (const [i, title] of ['Shard', 'Node', 'Holds', 'Used', 'Lease'].entries()) {
    const th = make('th', i < 2 ? 'text' : '', title);
    th.scope = 'col';
    table.tHead.firstChild.append(th);
  }
  return make('section', 'state', make('h3', '', `${named(s.command)}${s.window_ms ? `, ${span(s.window_ms)}` : ''}${parameter}${s.shadow ? ', SHADOW' : ''}`), make('div', 'now'), newBar(), make('dl', ''), table);
}

function showState(section, s) {
  const [, now, bar, facts, table] = section.children;
  const slots = s.command === 'rl.acquire'; // slots are held, not charged
  putFigure(now, slots ? [plain.format(s.held), `of ${plain.format(s.limit)} slots held`] : [plain.format(s.used), `of ${plain.format(s.limit)} used`]);
  const full = s.remaining <= 0;
  now.className = full ? 'now denied' : 'now';
  bar.className = full ? 'bar denied' : 'bar';
  fill(bar, (s.used + s.held) / s.limit);
  const rows = [['Remaining', plain.format(Math.max(0, s.remaining))], ['Expires in', span(s.ttl_ms)], ['Node', visible(s.node)]];
  if (!slots) rows.splice(1, 0, ['Charges', `${count(s.rate)}\u00a0/s`]);
  if (s.holds || s.lapsed) {
    rows.push(['Held', `${plain.format(s.held)} by ${plain.format(s.holds)} ${slots ? 'leases' : 'reservations'}`]);
    rows.push(['Lapsed', plain.format(s.lapsed)]);
  }
  for (const a of s.advances ?? []) rows.push(['Advanced', `${plain.format(a.units)} to ${visible(a.proxy)}, ${span(a.lapses_ms)} left`]);
  if (facts.children.length !== 2 * rows.length) facts.replaceChildren();
  if (!facts.firstChild) for (const [name] of rows) facts.append(make('dt', '', name), make('dd', ''));
  rows.forEach(([name, value], i) => {
    put(facts.children[2 * i], name);
    put(facts.children[2 * i + 1], value);
  });
  const shards = s.shards ?? [];
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
