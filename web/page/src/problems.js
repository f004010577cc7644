
// ---- The problems: what somebody would be paged for, above everything else.

function showProblems() {
  const { problems } = snapshot;
  $('problems').hidden = !problems.length;
  list($('problems').firstChild, problems, p => p.text, newProblem, () => {});
}

function newProblem(p) {
  return make('li', p.page ? 'page' : '', make('span', 'sr', p.page ? 'Urgent: ' : 'Warning: '), visible(p.text));
}
