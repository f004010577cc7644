// ---- The newest denials.

const denialRows = $('denials').tBodies[0];
pickable(denialRows);

function showDenials() {
  const { denials } = snapshot;
  const held = steady(denialRows) && denialRows.children.length > 0;
  put($('denials-note'), held ? 'paused while you point at it' : '');
  if (held) return;
  $('denials').hidden = !denials.length;
  $('denials-empty').hidden = denials.length > 0;
  put($('denials-empty'), 'Nothing was denied.');
  const seen = new Map();  // how many equal denials came before
  const id = d => {
    const name = [d.time, d.id, d.command, d.window_ms, d.client].join(' ');
    seen.set(name, (seen.get(name) ?? 0) + 1);
    return `${name} ${seen.get(name)}`;
  };
  list(denialRows, denials, id, newDenial, () => {});
}

function newDenial(d) {
  const name = make('th', 'text', keyLink(d.id, d.key));
  if (d.fail) name.append(make('span', 'under trouble', `answered by FAIL policy ${visible(d.fail)}`));
  if (d.shadow) name.append(make('span', 'under', 'not denied: SHADOW only tries the limit'));
  name.scope = 'row';
  const time = make('td', 'text soft', clock(d.time));
  time.title = new Date(d.time).toString();
  const used = d.fail || d.used < 0 ? '' : `, used ${plain.format(d.used)}`;
  const limit = `${plain.format(d.limit)} ${d.window_ms ? `per ${span(d.window_ms)}` : 'slots'}`;
  const why = d.limit ? `${limit}${used}` : 'blocked by an override';
  const by = d.policy ? ` by policy ${visible(d.policy)}` : '';
  const asked = make('span', 'under', visible([d.client, d.node].filter(Boolean).join(' → ')));
  name.append(make('span', 'under', `${named(d.command)}${by}, ${why}`), asked);
  asked.title = asked.textContent;
  return make('tr', '', time, name, make('td', '', span(d.retry_after_ms)));
}
