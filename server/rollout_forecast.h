/* rollout_forecast.h: a rollout's plan and the smallest regression that each of its steps can see, on stdout. */
// SPDX-License-Identifier: Apache-2.0
#ifndef FOLDKV_SERVER_ROLLOUT_FORECAST_H
#define FOLDKV_SERVER_ROLLOUT_FORECAST_H

#include "sched/judge/rollout_power.h"

/* NO_MEMORY. */
enum status rollout_forecast_print(const struct rollout_plan *plan, const struct rollout_service *service,
                                   bool is_json, struct why *ret_why) MUST_USE;

#endif
