// Different words of two texts: the shortest edit script (Myers 1986), up to a number of edits.

const MOST_EDITS = 600;

function wordsOf(text) {
  return text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) || [];
}

// For each number of edits, the furthest position on each diagonal; null if there are too many edits.
function editHistory(a, b) {
  const furthest = new Map([[1, 0]]);
  const history = [];
  for (let edits = 0; edits <= Math.min(MOST_EDITS, a.length + b.length); edits += 1) {
    history.push(new Map(furthest));
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      const down = diagonal === -edits || (diagonal !== edits && furthest.get(diagonal - 1) < furthest.get(diagonal + 1));
      let x = down ? furthest.get(diagonal + 1) : furthest.get(diagonal - 1) + 1;
      while (x < a.length && x - diagonal < b.length && a[x] === b[x - diagonal]) x += 1;
      furthest.set(diagonal, x);
      if (x >= a.length && x - diagonal >= b.length) return history;
    }
  }
  return null;
}

// Whether each word of a and of b is common to both.
function commonWords(a, b) {
  const [inA, inB] = [new Array(a.length).fill(false), new Array(b.length).fill(false)];
  const history = editHistory(a, b);
  if (history === null) return [inA, inB];
  let [x, y] = [a.length, b.length];
  for (let edits = history.length - 1; edits >= 0; edits -= 1) {
    const furthest = history[edits];
    const diagonal = x - y;
    const down = diagonal === -edits || (diagonal !== edits && furthest.get(diagonal - 1) < furthest.get(diagonal + 1));
    const before = down ? diagonal + 1 : diagonal - 1;
    const startX = furthest.get(before);
    const startY = startX - before;
    while (x > Math.max(0, startX) && y > Math.max(0, startY) && a[x - 1] === b[y - 1]) {
      x -= 1; y -= 1;
      inA[x] = inB[y] = true;
    }
    [x, y] = [startX, startY];
  }
  return [inA, inB];
}

// Both texts as runs of {text, same}.
function difference(left, right) {
  const [a, b] = [wordsOf(left), wordsOf(right)];
  let start = 0;
  while (start < Math.min(a.length, b.length) && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < Math.min(a.length, b.length) - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const common = commonWords(a.slice(start, a.length - end), b.slice(start, b.length - end));
  return [a, b].map((words, side) => runs(words, (place) => place < start || place >= words.length - end || common[side][place - start]));
}

function runs(words, isCommon) {
  const pieces = [];
  const common = words.map((_, place) => isCommon(place));
  words.forEach((word, place) => {
    const between = !/\S/.test(word) && common[place - 1] === false && common[place + 1] === false; // spaces of what differs
    const same = common[place] && !between;
    if (pieces.length && pieces[pieces.length - 1].same === same) pieces[pieces.length - 1].text += word;
    else pieces.push({ text: word, same });
  });
  return pieces;
}
