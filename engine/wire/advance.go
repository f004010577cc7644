package wire

import (
	"github.com/rlproxy/rlproxy/engine/advance"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// AdvanceAsk is the request of the functions advance and account, which ask the home of a key.
type AdvanceAsk struct {
	Proxy   string           `msg:"proxy"`
	Spec    string           `msg:"spec"`
	Account *advance.Account `msg:"account?"`
	Want    int64            `msg:"want,units"` // for its next spans; 0: none
	Span    int64            `msg:"span,ms"`    // for which it would like to have them
}

// NewAdvanceAsk returns what a proxy asks for, about requests with the spec s.
func NewAdvanceAsk(proxy string, s *limit.Spec, m advance.Message, span int64) *AdvanceAsk {
	asked := spec{Spec: *s}
	return &AdvanceAsk{Proxy: proxy, Spec: string(asked.append(nil)), Account: m.Account, Want: m.Want, Span: span}
}

// AdvanceAnswer is the home's answer to that.
type AdvanceAnswer struct {
	Terms advance.Terms `msg:"terms"`
	Used  []int64       `msg:"used,units"`  // by window of the spec: the units that count, with all that is advanced
	Empty []int64       `msg:"empty,clock"` // by window: when no charged or held unit counts any more
}

// longestAdvance is the most ms from the clock to a deadline: a bound that no home exceeds.
const longestAdvance = 2000

// DecodeAdvance decodes the reply to an ask about requests with the spec s.
func DecodeAdvance(reply string, s *limit.Spec) (*AdvanceAnswer, error) {
	a := new(AdvanceAnswer)
	if err := Unpack(reply, a); err != nil {
		return nil, err
	}
	t := &a.Terms
	if len(a.Used) != s.N || len(a.Empty) != s.N ||
		t.Clock == 0 || t.Deadline > t.Clock+longestAdvance || t.Units > s.Smallest() ||
		(t.Number == 0) != (t.Units == 0) || t.Number != 0 && t.Deadline <= t.Clock {
		return nil, errInconsistent
	}
	return a, nil
}
