package shard

import "slices"

// Step is what a proxy does next with an ask on a split key.
type Step uint8

// The steps. AskPart and AskHome may charge and are never sent twice; reading is
// idempotent and may be.
const (
	AskPart   Step = iota // Part.Ask at the part that was chosen
	AskHome               // Home.Decide with Question
	ReadParts             // Part.Recall at all of Recalls, at once
	Finished              // Granted were admitted, the rest is denied
)

// Flow is one combined entry's way through a split key, at a proxy. A proxy that ends
// in the middle of it leaves rights unused until they are recalled or lapse, and
// never rights twice.
type Flow struct {
	Step    Step
	Part    int // asked first; 0 is the home
	Granted int64
	Recalls []Recall // to send, when Step is ReadParts

	rest     Ask
	question Question
}

// NewFlow begins with the part, or with the home if that is part 0, if the part is
// known to be away, or if nothing is known of a layout.
func NewFlow(a Ask, part int) *Flow {
	f := &Flow{Part: part, rest: a}
	f.question.Ask = &f.rest
	if part == 0 {
		f.Step = AskHome
	}
	return f
}

// Ask is what is still undecided: what AskPart asks.
func (f *Flow) Ask() *Ask { return &f.rest }

// Question is what AskHome asks.
func (f *Flow) Question() *Question { return &f.question }

// FromPart goes on after the part's answer.
func (f *Flow) FromPart(granted int64, miss Miss) {
	f.grant(granted)
	if f.rest.N == 0 {
		f.Step = Finished
		return
	}
	miss.Part = f.Part
	f.question.Miss, f.Step = &miss, AskHome
}

// PartAway goes on when the ask is known not to have reached the part. If it may have,
// the failure policy answers and the flow ends here: nothing is charged twice.
func (f *Flow) PartAway() { f.Step = AskHome }

// FromHome goes on after the home's answer. Its loan is for the caller to send on to
// the part, once; nothing waits for that.
func (f *Flow) FromHome(a Answer) {
	f.grant(a.Granted)
	f.Recalls, f.Step = a.Recall, ReadParts
	if f.rest.N == 0 || len(a.Recall) == 0 {
		f.Recalls, f.Step = nil, Finished
	}
}

// Read goes on when every recall has been answered or given up: away are the parts
// that did not answer. Reports may be another flow's, if they were sent for after
// this one's ask arrived.
func (f *Flow) Read(reports []Report, away []int) {
	q := &f.question
	for _, r := range reports {
		q.Reports = slices.DeleteFunc(q.Reports, func(old Report) bool { return old.Part == r.Part && old.Seq <= r.Seq })
		q.Reports = append(q.Reports, r)
	}
	q.Away, f.Step = append(q.Away, away...), AskHome
}

func (f *Flow) grant(n int64) {
	f.Granted += n
	f.rest.N -= n
}
