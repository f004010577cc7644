package envoy

import "slices"

// A shape is a sequence of keys of one domain that has limits. It becomes one policy, or two if
// some of its limits are in shadow mode.
type shape struct {
	domain *domain
	keys   []string
	levels []values      // by key: the classes of its values
	limits []*descriptor // the descriptors with limits, in the order of the files
}

// values are the classes of an entry's values, in the order of the files. The last one has
// the empty text, and stands for all values that no other class covers.
type values struct {
	classes []class
	sources []*descriptor // by class: the first descriptor that has it; nil for the last class
	// by class: the class that would cover its values if it did not exist; its own index for the last class
	wider []int
}

// shapes returns the shapes of a domain, in the order of the files.
func shapes(d *domain) []*shape {
	var found []*shape
	gather([]*level{&d.level}, nil, nil, func(s shape) {
		s.domain = d
		found = append(found, &s)
	})
	slices.SortStableFunc(found, func(a, b *shape) int { return a.limits[0].order - b.limits[0].order })
	return found
}

// gather calls add for each shape that begins with keys and has at least one more. levels are those
// of keys, and below has all levels below descriptors with these keys.
func gather(below []*level, keys []string, levels []values, add func(shape)) {
	byKey := make(map[string][]*descriptor)
	var next []string
	for _, l := range below {
		for _, d := range l.all {
			if byKey[d.key] == nil {
				next = append(next, d.key)
			}
			byKey[d.key] = append(byKey[d.key], d)
		}
	}
	for _, key := range next {
		s := shape{keys: append(slices.Clip(keys), key), levels: append(slices.Clip(levels), valuesOf(byKey[key]))}
		var deeper []*level
		for _, d := range byKey[key] {
			if d.limit != nil {
				s.limits = append(s.limits, d)
			}
			if len(d.below.all) > 0 {
				deeper = append(deeper, &d.below)
			}
		}
		if len(s.limits) > 0 {
			slices.SortFunc(s.limits, func(a, b *descriptor) int { return a.order - b.order })
			add(s)
		}
		if len(deeper) > 0 {
			gather(deeper, s.keys, s.levels, add)
		}
	}
}

// valuesOf returns the classes of values that descriptors with the same key distinguish.
func valuesOf(descriptors []*descriptor) values {
	var v values
	index := make(map[class]int)
	for _, d := range descriptors {
		c := class{d.value, !d.wildcard}
		if _, ok := index[c]; !ok && c.text != "" {
			index[c] = len(v.classes)
			v.classes, v.sources = append(v.classes, c), append(v.sources, d)
		}
	}
	last := len(v.classes)
	v.classes, v.sources = append(v.classes, class{}), append(v.sources, nil)
	lengths := lengthsOf(v.classes)
	for i, c := range v.classes {
		wider := last
		for _, n := range lengths {
			if n < len(c.text) || n == len(c.text) && c.exact {
				if j, ok := index[class{c.text[:n], false}]; ok {
					wider = j
					break
				}
			}
		}
		if i == last {
			wider = last
		}
		v.wider = append(v.wider, wider)
	}
	return v
}

// lengthsOf returns the lengths of the texts of all prefix classes, in descending order.
func lengthsOf(classes []class) []int {
	var lengths []int
	for _, c := range classes {
		if !c.exact {
			lengths = append(lengths, len(c.text))
		}
	}
	slices.Sort(lengths)
	lengths = slices.Compact(lengths)
	slices.Reverse(lengths)
	return lengths
}
