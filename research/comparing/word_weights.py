"""Weights of the comparison by words alone: made by `python -m benchmarks.delta_fit --write`, not by hand.

Fitted on the parts open, kept, used of benchmarks/data/delta (1081 labelled sentences of 62
scenarios) and on benchmarks/data/delta_practice.txt.  A figure (`pairing.py`, `values.py`,
`subjects.py`, `vectors.py`) that speaks for a choice has a weight above nought; "m17" is the figure
at place 17 of the sentence's vector.  docs/benchmarks.md tells what they reach.
"""

from __future__ import annotations

from research.comparing.weights import Weights

# fmt: off
WITHOUT_VECTORS = Weights(
    align={
        "alien_tight": -2.68, "codes_shared": 0.78, "codes_swapped": -2.75,
        "context_adds": -2.09, "dated": -0.69, "earlier": -0.34, "fact_in_sentence": 3.38,
        "found_now": 1.24, "grams": 2.26, "head_alien": -0.13, "head_in_fact": 0.13,
        "head_of_fact": 0.03, "in_order": -2.02, "later": -0.23, "lead_fact_in_sentence": 3.64,
        "lead_rarest_around": 1.41, "length": 2.23, "long_ago": -1.89, "name_for_name": -0.63,
        "names_alien": -0.94, "names_lost": 0.01, "names_missing": -0.49, "names_shared": 1.25,
        "names_strange": -0.16, "names_swapped": 0.96, "near_value": 2.75, "no_names": -0.12,
        "noun_differs": -0.26, "noun_same": 0.19, "other_thing": 0.64, "other_tight": -0.2,
        "other_tight_thing": -1.49, "other_time": 0.84, "other_value": -0.58,
        "other_words": 0.38, "other_year": 0.04, "rarest_around": -1.91, "rarest_shared": -1.06,
        "ratio": 1.19, "rounded": 2.44, "same_rare": 1.55, "same_time": 3.45,
        "same_value": 1.01, "sentence_in_fact": -1.8, "signs": -1.5, "subject_same": -0.22,
        "subject_swapped": -0.87, "swap_tight": 1.28, "value_added": -0.79, "value_held": -4.08,
        "value_missing": -2.06, "value_more": -0.95, "value_tight": -5.37,
        "words_swapped": 0.74, "words_swapped_tight": -0.87,
    },
    relate={
        "confirmed": {
            "against": -0.99, "becomes_near": 0.34, "both_not": 0.43, "both_values": 0.23,
            "both_was": -0.3, "came_about": -0.85, "corrects": 0.23, "corrects_near": -0.11,
            "covered": 1.3, "dated": -0.17, "denies": -1.24, "denies_near": -0.47,
            "differs_evidence": 0.69, "differs_later": -0.07, "differs_moves": 0.58,
            "differs_same_time": -1.41, "done_near": -0.63, "earlier": -0.03, "evidence": -1.75,
            "evidence_near": 0.41, "in_order": -0.89, "later": -1.22, "moves_near": -0.22,
            "near_value": -2.3, "never": 0.97, "never_near": -0.03, "never_now": -1.11,
            "never_then": -1.13, "not_old": 0.21, "not_old_near": -0.22, "noun_differs": -0.15,
            "noun_same": -0.15, "other_near": -0.51, "other_state": -0.94, "other_time": -0.87,
            "other_value": 0.2, "other_year": -0.09, "planned": -0.46, "quoted_near": 0.54,
            "rounded": 2.71, "same_quiet": 0.88, "same_rare": 0.82, "same_state": 0.64,
            "same_time": 1.45, "same_value": 1.11, "stays_near": 1.55, "value_added": -0.55,
            "value_missing": -0.23, "value_more": 0.03, "values_none": -0.32, "was_near": 0.61,
            "whole": 1.57, "bias": -0.64,
        },
        "changed": {
            "against": -0.8, "becomes_near": -0.73, "both_not": 0.44, "both_values": -0.07,
            "both_was": 0.6, "came_about": 0.33, "corrects": -0.44, "corrects_near": -0.14,
            "covered": 0.25, "dated": -0.26, "denies": -0.38, "denies_near": -0.16,
            "differs_evidence": 0.66, "differs_later": -0.28, "differs_moves": 0.44,
            "differs_same_time": -2.13, "done_near": 0.26, "earlier": 0.31, "evidence": -0.51,
            "evidence_near": -0.27, "in_order": -0.13, "later": 1.42, "moves_near": 3.55,
            "near_value": 2.16, "never": -1.17, "never_near": -0.26, "never_now": 0.79,
            "never_then": 0.1, "not_old": 0.39, "not_old_near": 0.03, "noun_differs": 0.26,
            "noun_same": 0.45, "other_near": 0.15, "other_state": -0.53, "other_time": 0.29,
            "other_value": 0.03, "other_year": -1.16, "planned": 0.7, "quoted_near": 0.37,
            "rounded": -0.95, "same_quiet": -0.25, "same_rare": -0.68, "same_state": 0.29,
            "same_time": -0.5, "same_value": -0.33, "stays_near": -0.99, "value_added": -0.06,
            "value_missing": -0.39, "value_more": -0.67, "values_none": -0.53,
            "was_near": -0.61, "whole": 1.66, "bias": -0.37,
        },
        "contradicted": {
            "against": 2.11, "becomes_near": -2.04, "both_not": -0.61, "both_values": 0.36,
            "both_was": 0.54, "came_about": 0.28, "corrects": 1.42, "corrects_near": 0.98,
            "covered": 0.22, "dated": 0.06, "denies": 0.76, "denies_near": 1.5,
            "differs_evidence": 1.38, "differs_later": -0.39, "differs_moves": -0.24,
            "differs_same_time": -1.39, "done_near": 0.93, "earlier": -0.5, "evidence": 1.02,
            "evidence_near": 1.76, "in_order": -0.06, "later": -0.37, "moves_near": -0.02,
            "near_value": 1.57, "never": 0.73, "never_near": 1.49, "never_now": 1.53,
            "never_then": 0.8, "not_old": 1.39, "not_old_near": 0.61, "noun_differs": -0.25,
            "noun_same": -0.21, "other_near": -0.13, "other_state": -0.62, "other_time": 1.06,
            "other_value": -0.46, "other_year": 1.27, "planned": -1.43, "quoted_near": 5.13,
            "rounded": -0.49, "same_quiet": -0.58, "same_rare": 0.66, "same_state": -0.68,
            "same_time": 0.85, "same_value": -0.22, "stays_near": -0.41, "value_added": 0.2,
            "value_missing": -0.44, "value_more": 0.09, "values_none": -1.09, "was_near": 0.5,
            "whole": 0.39, "bias": -1.87,
        },
    },
    new={
        "digits": 0.67, "long": -0.89, "never": -0.18, "other": 1.35, "stays": -0.32,
        "was": -0.24, "bias": 1.44,
    },
    noise={
        "call": 2.32, "capitals": -2.09, "chatter": 2.46, "commas": 1.47, "digits": -2.17,
        "exclaims": 2.41, "long": -2.36, "moves": -0.99, "no_fact": 3.2, "numbers": -2.04,
        "opinion": 2.13, "question": 2.79, "reader": 1.79, "related": -3.5, "said": -1.18,
        "words": -4.16, "bias": 3.9,
    },
)
