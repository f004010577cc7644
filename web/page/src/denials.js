
// ---- What was turned away last: a row for each policy and for each prefix of keys, so that none hides the others.

const denialRows = $('denials').tBodies[0];
pickable(denialRows);

function showDenials() {
  const { denials } = snapshot;
  const held = steady(denialRows) && denialRows.children.length > 0;
  put($('denials-note'), held ? 'paused while you point at it' : '');
  if (held) return;
  $('denials').hidden = !denials.length;
  $('denials-empty').hidden = denials.length > 0;
  put($('denials-empty'), 'Nothing was turned away. A key whose limit is reached is shown here, with its limit and its client.');
  list(denialRows, denials, g => `${g.policy} ${g.prefix}`, newGroup, showGroup);
}

function newGroup(g) {
  const of = make('span', 'under');
  if (g.policy) of.append('policy ', make('b', '', visible(g.policy)));
  else if (g.prefix) of.append('keys ', make('bdi', '', visible(g.prefix) + '*'));
  else of.append('other keys');
  const name = make('th', 'text', of, make('div'), make('details', '', make('summary'), make('ul', 'others')));
  name.scope = 'row';
  return make('tr', '', make('td', 'text soft'), name, make('td'));
}

function showGroup(row, g) {
  const [time, name, times] = row.children;
  const [of, newest, more] = name.children;
  const [first, ...others] = g.keys;
  put(time, clock(first.time));
  time.title = new Date(first.time).toString();
  of.hidden = !g.policy && !others.length;
  const seen = [first.id, first.time, first.count].join(' ');
  if (newest.dataset.seen !== seen) newest.replaceChildren(...describe(first));
  newest.dataset.seen = seen;
  more.hidden = !others.length;
  put(more.firstChild, `${others.length} more ${others.length === 1 ? 'key' : 'keys'}`);
  list(more.lastChild, others, d => `${d.id} ${d.shadow}`, d => make('li', '', keyLink(d.id, d.key), make('span', 'soft')), (item, d) => put(item.lastChild, `${clock(d.time)}, ${howOften(d.count)}`));
  put(times, brief(g.count));
  times.title = plain.format(g.count);
}

const howOften = n => n === 1 ? 'once' : `${plain.format(n)} times`;

// describe returns what there is to say of a denial: its key, why it was denied, and who asked which node.
function describe(d) {
  const asked = make('span', 'under', visible([d.client, d.node].filter(Boolean).join(' → ')));
  asked.title = asked.textContent;
  return [
    keyLink(d.id, d.key),
    ...d.fail ? [make('span', unanswered(d) ? 'under trouble' : 'under', inPlace(d))] : [],
    ...d.shadow ? [make('span', 'under', 'not denied: SHADOW only tries the limit')] : [],
    make('span', 'under', `${why(d)}, retry after ${span(d.retry_after_ms)}`),
    asked,
  ];
}

// unanswered reports whether a denial is due to no limit, but to a node that did not answer.
const unanswered = d => !!d.fail && d.fail !== 'local';

// inPlace says what denied in place of a node. FAIL LOCAL denies by the limit, as far as this proxy has counted.
const inPlace = d => unanswered(d) ? `no node answered: FAIL ${visible(d.fail.toUpperCase())}` : 'counted by this proxy alone: FAIL LOCAL';

// cause returns the limit that denied, and what did in place of a node.
const cause = d => [!unanswered(d) && why(d), d.fail && inPlace(d)].filter(Boolean).join(', ');

// why returns the limit that denied.
function why(d) {
  if (!d.limit) return `${named(d.command)}, blocked by an override`;
  const used = d.fail || d.used < 0 ? '' : `, used ${plain.format(d.used)}`;
  return `${named(d.command)}, ${plain.format(d.limit)} ${d.window_ms ? `per ${span(d.window_ms)}` : 'slots'}${used}`;
}
