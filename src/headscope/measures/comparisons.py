"""What is compared with what, within each window: the classes of pairs of contrasts and of matched counts."""

from __future__ import annotations

from headscope.measures.relations import BOTH, PUNCTUATION_PAIR, REPEATED, SAME_SENTENCE, STOP_PAIR, UNRELATED

Relations = tuple[int, ...]

# Of a contrast: the relations of class 1, which are compared with unrelated pairs of the same band.
CONTRASTED: dict[str, Relations] = {
    "sentence": (SAME_SENTENCE,),
    "repeated": (REPEATED,),
    "related": (SAME_SENTENCE, REPEATED, BOTH),
}
INSIDE = "inside"  # pairs inside the mask of high attention, compared with those outside it: of S alone
CONTRASTS = (*CONTRASTED, INSIDE)

# Of matched counts: the strata within a band, each with the relations of class 1 and of class 0.
COMPARED: dict[str, tuple[tuple[Relations, Relations], ...]] = {
    "sentence": (((SAME_SENTENCE,), (UNRELATED,)), ((BOTH,), (REPEATED,))),
    "repetition": (((REPEATED,), (UNRELATED,)), ((BOTH,), (SAME_SENTENCE,))),
    "stop": (((STOP_PAIR,), (UNRELATED, SAME_SENTENCE)),),
    "stop_punctuation": (((STOP_PAIR,), (PUNCTUATION_PAIR,)),),
    "noise": (((UNRELATED,), (SAME_SENTENCE, REPEATED, BOTH)),),
}
COMPARISONS = tuple(COMPARED)
SIDES = ("a", "b")
