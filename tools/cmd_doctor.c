/* plait doctor: what this machine offers, what is missing, and what to do about it. */
#include "tools/commands.h"
#include "tools/doctor.h"
#include "tools/json.h"
#include <stdio.h>
#include <stdlib.h>

int cmd_doctor(struct args *args)
{
	struct rt_driver drv;
	struct rt_error e = {0};
	struct doctor d;
	struct strbuf out;
	bool open = rt_driver_open(&drv, NULL, &e) == PLAIT_OK;

	doctor_init(&d, args->arena);
	doctor_gpus(&d, open ? &drv : NULL, e.text);
	doctor_nvlinks(&d);
	doctor_multicast(&d);
	doctor_software(&d);
	if (args->json) {
		cJSON *doc = json_document(args);

		doctor_json(&d, doc);
		cJSON_AddNumberToObject(doc, "exit", 0);
		printf("%s\n", json_text(doc, args->arena));
		return 0;
	}
	strbuf_init(&out, args->arena);
	doctor_print(&d, &out);
	fputs(out.s, stdout);
	return 0;
}
